"""Xonar's experiment with jobs above 8 GB alone: more than a third of the pairs would run over a GPU's memory."""

from dataclasses import replace

from envs.workloads import xonar_mix

scenario = replace(xonar_mix.scenario, trace="xonar_memory")
