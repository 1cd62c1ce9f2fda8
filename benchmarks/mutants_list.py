"""Faults to plant for `benchmarks.mutants`: the file, its sound text, the faulty text, and the tests that see it."""

from collections.abc import Iterator
from typing import NamedTuple


class Mutant(NamedTuple):
    """A fault: `faulty` in place of `sound`, which occurs once in a file, and the tests of which one must fail."""

    name: str
    file: str
    sound: str
    faulty: str
    tests: tuple[str, ...]

    @property
    def compiled(self) -> bool:
        """Whether its tests need the compiler: those of the kernel run without."""
        return not self.file.startswith("simulator/kernel/")


def in_file(file: str, tests: str, *faults: tuple[str, str, str]) -> Iterator[Mutant]:
    """Yield the faults of a file, each with its name, sound and faulty text."""
    for name, sound, faulty in faults:
        yield Mutant(name, file, sound, faulty, tuple(f"tests/{test}.py" for test in tests.split()))


KERNEL = "simulator/kernel"
MUTANTS = (
    *in_file(
        f"{KERNEL}/cluster/pausing.py",
        "simulator/test_worked simulator/test_failures",
        ("a pause is not counted", "    s.preemptions[job] += 1\n", ""),
        ("a pause lasts as long as a load", "s.clock + jobs[job].pause_s", "s.clock + jobs[job].load_s"),
        ("a pause starts no load", "    s.saved[job] = 1\n", ""),
    ),
    *in_file(
        f"{KERNEL}/cluster/progress.py",
        "simulator/test_account_by_hand simulator/test_sharing simulator/test_failures simulator/test_worked",
        ("jobs finish early", "share_time(s, jobs, job, 1.0)", "share_time(s, jobs, job, 0.99)"),
        ("delay is no running time", "(1.0 - s.rate[job]) * spent", "0.0 * spent"),
        ("jobs crash again", "if s.crashed[job] or not 0 <", "if not 0 <"),
        ("levels rise by time, not GPU-seconds", "/ s.width[job] - ran)", "- ran)"),
        (
            "estimates become good at the end",
            "share_time(s, jobs, job, jobs[job].predictable_from)",
            "share_time(s, jobs, job, 0.999)",
        ),
        (
            "a new speed moves no event",
            "new_rate, new_used, shared\n    plan(s, jobs, job)",
            "new_rate, new_used, shared",
        ),
        (
            "past progress at the new speed",
            "    s.rate[job], s.efficiency[job] = rate, used\n    bank(s, job)",
            "    bank(s, job)",
        ),
        ("GPU-seconds are seconds", "s.run_gpu_s[job] += s.width[job] * spent", "s.run_gpu_s[job] += spent"),
    ),
    *in_file(
        f"{KERNEL}/cluster/holding.py",
        "simulator/test_failures simulator/test_sharing simulator/test_shapes simulator/test_account_by_hand",
        (
            "delay is not lost with the memory",
            "s.lost_s[job] += s.attained_s[job] + s.delay_s[job]",
            "s.lost_s[job] += s.attained_s[job]",
        ),
        ("a job out of memory has a checkpoint", "    s.saved[job] = 0\n", ""),
        ("restarts take twice as long", "s.clock + s.restart_delay)", "s.clock + 2 * s.restart_delay)"),
        (
            "checkpoints are written ahead",
            "np.floor(s.attained_s[job] / every",
            "np.ceil(s.attained_s[job] / every",
        ),
        ("the last pause is no checkpoint", "* every, s.checkpointed_s[job])", "* every, 0.0)"),
        ("the oldest is the newcomer", "s.began[job] > s.began[chosen]", "s.began[job] < s.began[chosen]"),
        (
            "overhead of a gang is that of one GPU",
            "s.overhead_gpu_s[job] += s.width[job] * spent",
            "s.overhead_gpu_s[job] += spent",
        ),
        (
            "the last start is the first",
            "    if np.isnan(s.start_s[job]):\n        s.start_s",
            "    if True:\n        s.start_s",
        ),
        ("a failure is not counted", "    s.failures[job] += 1\n", ""),
    ),
    *in_file(
        f"{KERNEL}/cluster/events.py",
        "simulator/test_failures",
        ("a crashed job crashes again", "        s.crashed[job] = 1\n", ""),
    ),
    *in_file(
        f"{KERNEL}/cluster/outages.py",
        "simulator/test_failures",
        (
            "failures while drained stay due",
            "        if s.fail_at[node] <= s.until[node]:\n",
            "        if False:\n",
        ),
        (
            "every drain redraws the next failure",
            "        if s.fail_at[node] <= s.until[node]:\n",
            "        if True:\n",
        ),
        (
            "nodes fail while under repair",
            "s.node_repair))\n        s.fail_at[node] = s.until[node]",
            "s.node_repair))\n        s.fail_at[node] = s.clock",
        ),
        (
            "jobs outlive a drained node",
            "        shut_down(s, jobs, node, s.drain_length)",
            "        open_node(s, node)",
        ),
        ("notice takes no time", "s.until[node] = s.clock + s.drain_notice", "s.until[node] = s.clock"),
    ),
    *in_file(
        f"{KERNEL}/cluster/events.py",
        "simulator/test_bounded_work",
        ("no work is enough", "< STALL_WORK_S * span", "< 0.0"),
        ("nothing is work", "work += queues.attained_now(s, job) + s.lost_s[job]", "work += 0.0"),
        ("skipped ticks are not counted", "        s.ticks += np.int64(np.round(passed))\n", ""),
        (
            "skipped ticks take no time",
            "        s.present_seconds += (last",
            "        s.present_seconds += 0 * (last",
        ),
        ("one tick too many is skipped", "    if passed >= 1:\n        last -= 1\n", "    if passed >= 1:\n"),
    ),
    *in_file(
        f"{KERNEL}/cluster/queues.py",
        "policies/test_victims simulator/test_worked simulator/test_failures",
        (
            "loading is no part of the effort",
            "return remaining_now(s, jobs, job) + load",
            "return remaining_now(s, jobs, job)",
        ),
        (
            "exceeded estimates leave nothing",
            "max(left, MIN_REMAINING_SHARE * attained, MIN_REMAINING_S)",
            "max(left, MIN_REMAINING_S)",
        ),
        (
            "good estimates are not used",
            "if s.predictable[job] else jobs[job].profiled",
            "if False else jobs[job].profiled",
        ),
        (
            "areas are lengths",
            "return remaining_now(s, jobs, job) * jobs[job].num_gpus",
            "return remaining_now(s, jobs, job)",
        ),
        ("every start loads", "    if s.saved[job]:\n", "    if True:\n"),
    ),
    *in_file(
        f"{KERNEL}/cluster/placement.py",
        "simulator/test_worked simulator/test_walks simulator/test_kernel_equals_reference",
        (
            "best fit prefers the last of equals",
            "if room[node] < room[best]:",
            "if room[node] <= room[best]:",
        ),
        (
            "spread prefers the last of equals",
            "elif room[node] > room[best]:",
            "elif room[node] >= room[best]:",
        ),
        (
            "gangs take the last idle node of equals",
            "or size > s.node_gpus[best]:",
            "or size >= s.node_gpus[best]:",
        ),
        ("the fullest node is the best fit", "if room[node] < room[best]:", "if room[node] > room[best]:"),
        (
            "GPUs of any size hold a job",
            "s.node_memory[node] >= jobs[job].gpu_memory_gib",
            "s.node_memory[node] >= 0",
        ),
    ),
    *in_file(
        f"{KERNEL}/rankings/cost_aware.py",
        "policies/test_victims",
        ("a job may be displaced a second early", "MIN_RUN_S = 60.0", "MIN_RUN_S = 59.0"),
        ("a job may be displaced only after a minute", ">= MIN_RUN_S", "> MIN_RUN_S"),
        ("the later of two equal victims", "(left == most and job < best)", "(left == most and job > best)"),
        (
            "the first of two equal victims by GPU",
            "left > most or (left == most and job < best)",
            "left > most",
        ),
        (
            "the job with least time left is paused",
            "left > most or (left",
            "best == NOBODY or left < most or (left",
        ),
    ),
    *in_file(
        f"{KERNEL}/rankings/cost_aware.py",
        "policies/test_victims",
        ("many victims are worth their sum", "return left / (end - first) / cost", "return left / cost"),
        ("overheads have no weight", "cost += margin * overhead_of(jobs, s.victims[k])", "cost += 0.0"),
        ("victims in vain", "if have - spare >= wanted:", "if have - spare > wanted:"),
    ),
    *in_file(
        f"{KERNEL}/rankings/rankings.py",
        "simulator/test_worked",
        (
            "strict skips like greedy",
            "if s.discipline == STRICT:\n                s.tenant_spared",
            "if False:\n                s.tenant_spared",
        ),
        ("granted jobs wait an instant more", "if all_free(s, gpus) and", "if False and"),
    ),
    *in_file(
        f"{KERNEL}/rankings/rankings.py",
        "simulator/test_tenants",
        (
            "a blocked job holds back other tenants",
            "s.tenant_spared[tenant] &= barred",
            "s.tenant_spared[:] &= barred",
        ),
        ("running jobs need no quota", "return s.num_tenants > 0 and not within", "return False"),
        ("grants count for no quota", "            s.pass_gpus += jobs[job].num_gpus\n", ""),
        (
            "any job is paused for any tenant",
            "if s.tenant[job] == s.tenant[head] and is_rival",
            "if is_rival",
        ),
        ("what one tenant may take, the next may too", "            withdraw(s)\n", ""),
    ),
    *in_file(
        f"{KERNEL}/rankings/rankings.py",
        "simulator/test_constraints",
        (
            "a blocked job blocks all nodes",
            "s.tenant_spared[tenant] &= barred",
            "s.tenant_spared[tenant] = 0",
        ),
        (
            "with pauses a blocked job blocks all nodes",
            "                spared &= jobs[job].barred",
            "                spared = 0",
        ),
    ),
    *in_file(
        f"{KERNEL}/rankings/easy.py",
        "simulator/test_constraints",
        (
            "EASY reserves for one head in all",
            "            close_behind(s, jobs, job)\n",
            "            return best\n",
        ),
        ("EASY holds back jobs of other nodes", "return shares_a_node(", "return True or shares_a_node("),
    ),
    *in_file(
        f"{KERNEL}/rankings/easy.py",
        "simulator/test_tenants",
        ("EASY reserves no quota", "    return not binds or s.pass_gpus", "    return True or s.pass_gpus"),
        (
            "EASY counts paused jobs from their first start",
            "resumes = s.phase_began[job] + (s.loading_s[job] if s.phase[job] == LOADING else 0.0)",
            "resumes = s.start_s[job] + s.checkpointed_s[job]",
        ),
    ),
    *in_file(
        f"{KERNEL}/cluster/placement.py",
        "simulator/test_constraints",
        ("jobs use every node", "(jobs[job].barred >> s.node_group[node]) & 1 == 0", "True"),
        (
            "the largest node is any node's",
            "        if group_holds(s, jobs, job, group):\n            largest",
            "        if True:\n            largest",
        ),
    ),
    *in_file(
        f"{KERNEL}/cluster/events.py",
        "simulator/test_constraints",
        ("nothing is held", "if s.unmet[s.num_arrived] > 0:", "if s.unmet[s.num_arrived] < 0:"),
        ("the first end lets a job go", "if s.unmet[other] == 0 and s.phase", "if s.phase"),
        ("a job lets those of others go", "begin = s.dependents_end[job - 1] if job > 0 else 0", "begin = 0"),
    ),
    *in_file(
        f"{KERNEL}/cluster/tenants.py",
        "simulator/test_constraints",
        (
            "claims are on every node",
            "if is_claim and (s.binds == 0 or shares_a_node(s, jobs[job].barred, barred)):",
            "if is_claim:",
        ),
        (
            "free GPUs are on every node",
            "    if s.binds:\n        free = 0\n",
            "    if False:\n        free = 0\n",
        ),
    ),
    *in_file(
        f"{KERNEL}/cluster/tenants.py",
        "simulator/test_tenants",
        ("free pauses hand no GPUs over", "held_as_many(s, s.tenant[job], more) or ", ""),
        ("free pauses hand over too much", "+ more <= s.held_before", "+ more - 1 <= s.held_before"),
        ("claims bar for ever", " and s.num_active == 0 and not are_void(s)", " and s.num_active == 0"),
        (
            "wide jobs have claims",
            "tenant != but and wanted <= rest_of_quota(s, tenant)",
            "tenant != but",
        ),
        ("tenants claim from themselves", "is_claim = tenant != but and wanted", "is_claim = wanted"),
        (
            "claims have no limit",
            "total += min(s.tenant_left[tenant], rest_of_quota(s, tenant))",
            "total += s.tenant_left[tenant]",
        ),
        (
            "claims hold nobody back",
            "return may_borrow(s, jobs, job) >= more",
            "return s.num_free >= more",
        ),
        ("handed-over GPUs count again", "count += not of_tenant and holder != job", "count += 1"),
        (
            "paused jobs start again at once",
            "s.last_action_instant[job] != s.instant and may_take",
            "may_take",
        ),
        (
            "borrowed GPUs are not swapped",
            "            s.tenant_limit[tenant] = s.tenant_kept[tenant]\n",
            "            pass\n",
        ),
    ),
    *in_file(
        f"{KERNEL}/cluster/reclaim.py",
        "simulator/test_tenants",
        ("the oldest is paused first", "s.began[job] > s.began[found]", "s.began[job] < s.began[found]"),
        (
            "quotas are taken back too",
            "s.tenant_kept[tenant] <= s.quota[tenant]",
            "s.tenant_kept[tenant] <= 0",
        ),
        (
            "nobody is spared",
            "        if fits and not choose_nodes(s, jobs, job, s.room[0], s.core_room[0]):",
            "        if fits:",
        ),
        (
            "the youngest is spared first",
            "for k in range(end - 1, first - 1, -1):",
            "for k in range(first, end):",
        ),
        ("a claim is met twice", "    s.tenant_left[s.tenant[job]] -= jobs[job].num_gpus\n", ""),
        (
            "reclaimed jobs return at once",
            "        s.evicted[s.victims[k]] = EVICTED\n",
            "        s.evicted[s.victims[k]] = RETURNED\n",
        ),
        ("reclaimed jobs never return", "                s.evicted[job] = RETURNED\n", ""),
        ("reclaimed jobs are not spared", "s.clock - s.phase_began[job] < SPARED_S", "False"),
        ("the same GPUs are taken for two", "        s.room[0, s.chosen_node[k]] -= s.chosen_gpus[k]\n", ""),
    ),
    *in_file(
        f"{KERNEL}/cluster/legality.py",
        "simulator/test_tenants",
        ("one job stands for all of its class", "(s.evicted[job] == EVICTED) == evicted and ", ""),
    ),
    *in_file(
        f"{KERNEL}/cluster/holding.py",
        "simulator/test_tenants",
        ("released GPUs stay with the tenant", "    s.tenant_gpus[s.tenant[job]] -= s.width[job]\n", ""),
        ("GPUs handed over count for nobody", "    s.tenant_gpus[s.tenant[reserved_for]] += 1\n", ""),
    ),
    *in_file(
        "workloads/_quotas.py",
        "workloads/test_quotas",
        ("a limit of 0 ends all jobs", '.where(table["time_limit_s"] > 0, np.inf)', ""),
        ("vc comes before tenant", 'TENANT_COLUMNS = ("tenant", "vc")', 'TENANT_COLUMNS = ("vc", "tenant")'),
    ),
    *in_file(
        "simulator/tenants.py",
        "workloads/test_quotas simulator/test_tenants",
        (
            "wide jobs are never too wide",
            "wide: np.ndarray = num_gpus >",
            "wide: np.ndarray = 0 * num_gpus >",
        ),
        ("shares do not matter", "np.argmax(relative / quotas)", "np.argmax(1 / quotas)"),
    ),
    *in_file(
        "evaluation/comparison.py",
        "evaluation/test_comparison evaluation/test_agent_comparison",
        ("the bootstrap draws n - 1", "rng.multinomial(n, ", "rng.multinomial(max(n - 1, 1), "),
        (
            "every seed draws the same",
            "rng = np.random.default_rng(seed)\n    return tuple",
            "rng = np.random.default_rng(0)\n    return tuple",
        ),
        ("only windows are resampled", "((rows @ ratios)", "((np.ones_like(rows) @ ratios)"),
        (
            "the interval is one-sided",
            "[(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]",
            "[1 - CONFIDENCE, (1 + CONFIDENCE) / 2]",
        ),
        ("ties of agents are wins", "wins=int((each < 1).sum())", "wins=int((each <= 1).sum())"),
        ("ties are wins", "wins=int((ratios < 1).sum())", "wins=int((ratios <= 1).sum())"),
        ("Holm corrects all alike", "(len(p_values) - place)", "len(p_values)"),
        ("Holm is not monotone", "largest = max(largest, min(1.0, ", "largest = max(0.0, min(1.0, "),
        (
            "the middle half is 60 %",
            "mean = float(trim_mean(ratios, 0.25, axis=None))",
            "mean = float(trim_mean(ratios, 0.2, axis=None))",
        ),
        (
            "seeds of a window count as windows",
            "if (windows[1:] == windows[:-1]).any() else",
            "if False else",
        ),
    ),
    *in_file(
        "evaluation/metrics.py",
        "evaluation/test_metrics evaluation/test_deadlines",
        ("short jobs have their full slowdown", '["run_s"].clip(lower=SLOWDOWN_THRESHOLD_S)', '["run_s"]'),
        (
            "the makespan begins with the last job",
            'self["submit_s"].min()\n        return span',
            'self["submit_s"].max()\n        return span',
        ),
        ("early jobs have negative lateness", '["deadline_s"]).clip(lower=0.0)', '["deadline_s"])'),
        ("jobs without a deadline are late", 'late.where(self.results["deadline_s"] > 0)', "late"),
        ("Jain's index is a mean of squares", "values.sum() ** 2 / (len", "(values**2).sum() / (len"),
        ("variance of a sample", ".var(ddof=0)", ".var(ddof=1)"),
        ("shares ignore other jobs", "gpus / (size * present)", "gpus / size + 0 * present"),
        ("a share is of GPUs, not of jobs' requests", "gpus / (size * present)", "gpus / present"),
        ("the longest slowdown is the 99th percentile", "w.slowdown).quantile(0.99)", "w.slowdown).max()"),
        ("the longest twentieth is rounded down", "math.ceil(0.05", "math.floor(0.05"),
    ),
    *in_file(
        "simulator/relaxations.py",
        "simulator/test_lower_bound",
        ("a bound above the best schedule", "- submit_s + least_s / 2", "- submit_s + least_s"),
        ("a bound without start-up", "return float(startup_s.mean()) + best", "return best"),
        ("moments of serving the least remaining work", "by_remaining=False)", "by_remaining=True)"),
    ),
    *in_file(
        "agents/timed_ppo.py",
        "agents/test_timed_ppo",
        (
            "elapsed time one step late",
            "elapsed_s[self.rollout_buffer.pos]",
            "elapsed_s[self.rollout_buffer.pos - 1]",
        ),
        (
            "advantages run through the ends of episodes",
            "self.gae_lambda * factors[step] * advantage",
            "self.gae_lambda * np.exp(-self.elapsed_s[step] / self.tau_s) * advantage",
        ),
        ("lambda is 1", "self.gae_lambda * factors[step] * advantage", "factors[step] * advantage"),
        (
            "episodes end a step early",
            "[self.episode_starts[1:], dones]",
            "[self.episode_starts[:-1], dones]",
        ),
        (
            "returns are advantages",
            "self.returns = self.advantages + self.values",
            "self.returns = self.advantages.copy()",
        ),
        (
            "no discount",
            "factors = np.exp(-self.elapsed_s / self.tau_s) * (",
            "factors = (self.elapsed_s >= 0) * (",
        ),
    ),
    *in_file(
        "agents/resumption.py",
        "agents/test_resumption",
        (
            "a resumed actor rests again",
            "            setattr(model, name, value)\n        own",
            "            pass\n        own",
        ),
        (
            "a resumed run draws its lessons again",
            'model._rng.bit_generator.state = values["generator"]',
            "pass",
        ),
        (
            "a resumed run keeps its fresh windows",
            "own.view(np.uint8)[:] = unpacked",
            "own.view(np.uint8).copy()[:] = unpacked",
        ),
        ("curves keep what came after the state", "curve.truncate(lengths[file.name])", "pass"),
        ("a resumed run forgets its best validation", "setattr(validations, name, value)", "pass"),
    ),
    *in_file(
        "agents/ppo.py",
        "agents/test_learning agents/test_search",
        (
            "every seed learns alike",
            "return scenario.seed if training.learning_seed is None else training.learning_seed",
            "return scenario.seed",
        ),
        (
            "the first phase counts for the second",
            "max(0, num_timesteps - self.first), max(1, total_timesteps - self.first)",
            "num_timesteps, total_timesteps",
        ),
    ),
    *in_file(
        "traces/_table.py",
        "traces/test_traces",
        ("no run time is too short", "~(numbers >= column.minimum)", "~(numbers >= 0)"),
        ("ids may come twice", "    if len(set(ids)) == len(ids):\n", "    if True:\n"),
        (
            "files are not sorted",
            'order = np.argsort(columns["submit_s"], kind="stable")',
            "order = np.arange(len(table))",
        ),
        ("one job too many", "return table.iloc[:jobs].copy()", "return table.iloc[: jobs + 1].copy()"),
        (
            "fractions of GPUs are cut",
            "(column.dtype is int) & (np.floor(numbers) != numbers)",
            "False & (numbers > 0)",
        ),
        (
            "underscores are digits",
            '_NOT_IN_A_NUMBER = re.compile(r"[^0-9eE+.\\-\\s]")',
            '_NOT_IN_A_NUMBER = re.compile(r"[^0-9eE+._\\-\\s]")',
        ),
    ),
    *in_file(
        "traces/_delimited.py",
        "traces/test_traces traces/test_logs",
        ("columns may come twice", "        if count > 1:\n", "        if count > 99:\n"),
        ("blank lines are jobs", "        elif blank:", "        elif False:"),
        ("long rows are cut", "            if len(record) != width:", "            if len(record) < width:"),
        ("lines are counted as records", "        line = first_line + reader.line_num", "        line += 1"),
        (
            "a blank line is named by the line after it",
            "            raise TraceError(file, blank, None,",
            "            raise TraceError(file, line, None,",
        ),
    ),
    *in_file(
        "traces/_json.py",
        "traces/test_philly",
        ("constants are numbers", "json.JSONDecoder(parse_constant=_refuse)", "json.JSONDecoder()"),
    ),
    *in_file(
        "traces/_times.py",
        "traces/test_logs",
        (
            "an hour that came twice is its first",
            "np.where(self.early < before, self.late, self.early)",
            "self.early + 0 * before",
        ),
        (
            "a zone has no effect",
            "if self.zone is not None and len(local):",
            "if self.zone is not None and False:",
        ),
    ),
    *in_file(
        "traces/slurm.py",
        "traces/test_logs",
        ("limits are in seconds", "log.set_limits(60.0 * spans(", "log.set_limits(1.0 * spans("),
        (
            "only the first attempt runs",
            'log["duration_s"][head] = log["duration_s"][rows].sum()',
            'log["duration_s"][head] = log["duration_s"][rows[0]].sum()',
        ),
        (
            "a total of GPUs adds to the types",
            "max(total - slices, typed), parts",
            "total - slices + typed, parts",
        ),
        ("GRES are of all nodes", 'nodes[row] if name.endswith("GRES") else 1.0', "1.0"),
    ),
    *in_file(
        "traces/swf.py",
        "traces/test_logs",
        (
            "requested processors count",
            "gpus = np.where(used > 0, used, asked)",
            "gpus = np.where(asked > 0, asked, used)",
        ),
    ),
    *in_file(
        "evaluation/verdict.py",
        "evaluation/test_verdict",
        ("effects below the error count", "if abs(found.change) <= calibration.error:", "if False:"),
        ("intervals with zero count", "if found.low <= 0 <= found.high:", "if False:"),
        ("pauses may be free", '"preemption" not in parts:', "parts is None:"),
        ("the farthest candidate is the log's own", "name = min(distance,", "name = max(distance,"),
        ("the log's cluster may be too small", "if above > MAX_ABOVE *", "if above > 1e9 *"),
    ),
    *in_file(
        "evaluation/each.py",
        "evaluation/test_each",
        ("an early outcome is lost", "while place in early:", "if place in early:"),
        (
            "a task whose worker died is given up",
            "yield from pool()([delayed(_placed)(place, task)])",
            "raise BrokenProcessPool",
        ),
    ),
    *in_file(
        "evaluation/runner.py",
        "commands/test_results_as_they_come",
        ("results are not committed", "outcome = attempt(write, workload) or outcome", "pass"),
    ),
    *in_file(
        "evaluation/record.py",
        "evaluation/test_record",
        ("waits in SWF count from zero", '"wait time": start_s - submit_s', '"wait time": start_s'),
    ),
    *in_file(
        "evaluation/what_if.py",
        "evaluation/test_what_if",
        ("the knee is the last size", "np.argmax(below)", "np.argmin(below)"),
    ),
    *in_file(
        "workloads/_scenario.py",
        "workloads/test_measured",
        ("one column of two is enough", "if set(needed) <= set(columns)", "if set(needed) & set(columns)"),
    ),
    *in_file(
        "traces/philly.py",
        "traces/test_philly",
        ("attempts may end before they start", "and end < start:", "and end < 0:"),
        (
            "only the last attempt counts",
            "sum(end - start for start, end in spans)",
            "sum(end - start for start, end in spans[-1:])",
        ),
        ("GPUs of the last attempt", "attempts[0][2] if attempts", "attempts[-1][2] if attempts"),
        ("the last start is logged", '"logged_start_s": spans[0][0]', '"logged_start_s": spans[-1][0]'),
    ),
    # Warm starts and uncounted jobs.
    *in_file(
        f"{KERNEL}/rankings/rankings.py",
        "simulator/test_warm_starts",
        (
            "what happens at the begin is left to FIFO",
            "s.wake) >= time or not",
            "s.wake) > time or not",
        ),
        ("the begin is no instant", "s.clock = s.wake = time", "s.clock = time"),
        (
            "time before the begin is not counted",
            "        s.present_seconds += (time - s.clock) * (s.num_arrived - s.num_done)\n        s.clock = s.wake",
            "        s.clock = s.wake",
        ),
    ),
    *in_file(
        f"{KERNEL}/calls.py",
        "simulator/test_warm_starts",
        (
            "levels begin with the next start",
            "            plan_next_event(s, jobs, job)",
            "            pass",
        ),
    ),
    *in_file(
        "simulator/results.py",
        "simulator/test_warm_starts",
        ("all jobs count", "    if rows is not None:\n", "    if rows is not None and False:\n"),
    ),
    *in_file(
        "workloads/_steady.py",
        "simulator/test_warm_starts",
        ("counting begins after the limit", "(submit_s >= stretch.from_s)", "(submit_s > stretch.from_s)"),
        ("counting ends with the limit", "(submit_s < stretch.to_s)", "(submit_s <= stretch.to_s)"),
    ),
    *in_file(
        "workloads/_workload.py",
        "simulator/test_warm_starts",
        (
            "steady windows begin empty",
            "            episode.states[0] = self._begun[0]\n",
            "            pass\n",
        ),
    ),
    *in_file(
        "simulator/relaxations.py",
        "simulator/test_warm_starts",
        (
            "the bound is of all jobs",
            "return float(episode.fastest_s[counted].mean())",
            "return float(episode.fastest_s.mean())",
        ),
    ),
    *in_file(
        "workloads/_steady.py",
        "workloads/test_steady",
        (
            "jobs are removed alone",
            "(np.diff(submit_s[order]) > BATCH_GAP_S)",
            "(np.diff(submit_s[order]) > -1.0)",
        ),
        (
            "windows of a log have any load",
            "    if abs(loads[nearest] - wanted) > tolerance * wanted:\n        return None\n",
            "",
        ),
    ),
    *in_file(
        "envs/batch.py",
        "workloads/test_steady",
        (
            "an environment scores all jobs",
            "mean = float(jct_s[load.counted].mean())",
            "mean = float(jct_s.mean())",
        ),
    ),
)
"""All faults. The known survivors of an earlier hunt are among them."""
