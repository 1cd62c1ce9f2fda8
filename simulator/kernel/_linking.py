"""Faster compilation for Numba 0.68: each function is optimised once, and machine code is generated for entries only.

Numba by itself links all callees of a function into it, optimises the whole and generates machine code, and
again one level up, so that most functions are optimised dozens of times. Under another series of Numba
`_compile` does not use this module: compilation takes about three times as long, with the same results.

A function that only compiled functions call becomes a `Piece`: it is optimised once, together with the callees
that are short enough to be inlined. A function that Python calls becomes a `Whole`: it is optimised in the same
way, and then linked with all pieces below it. Both are subclasses of Numba's class of code libraries.
"""

import hashlib
import sys
from itertools import chain, islice
from typing import Any

from llvmlite import binding as llvm
from llvmlite.binding import newpassmanagers
from numba.core import caching, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result
from numba.core.environment import lookup_environment

from gpu_cluster_gym.simulator.kernel._pipeline import Pipeline

KERNEL = __name__.rpartition(".")[0]
SHORT = 300  # instructions; of longer ones LLVM inlines next to none


class NoEngine:
    """Placeholder engine of a library that is not executable."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing."""


class Piece(JITCodeLibrary):
    """Function for compiled callers: optimised, and not executable by itself."""

    source: tuple[str, str, tuple[Any, ...]]  # module, name and argument types of the function
    symbol = ""  # its linker symbol
    short = False

    def finalize(self) -> None:
        """Optimise the function, with its short callees."""
        link_short(self)
        self._optimize_final_module()
        self.settle()

    def settle(self) -> None:
        """Record the symbol and length of the function, and make Numba's own functions that were linked in internal."""
        for function in self._final_module.functions:
            if function.is_declaration:
                continue
            if function.linkage in (llvm.Linkage.external, llvm.Linkage.weak_odr):
                function.linkage, self.symbol = "weak_odr", function.name
                instructions = chain.from_iterable(block.instructions for block in function.blocks)
                self.short = next(islice(instructions, SHORT, None), None) is None
            elif function.linkage != llvm.Linkage.available_externally:
                function.linkage = "internal"
        self._finalized = True

    def module(self, linkage: str) -> Any:
        """Return a copy: `linkonce_odr` is dropped if not called, `available_externally` is only inlined."""
        copy = self._final_module.clone()
        copy.get_function(self.symbol).linkage = linkage
        return copy

    @property
    def codegen(self) -> Any:
        """Placeholder for the engine."""
        return NoEngine

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[Any, ...]:
        """Return the cached form that `again` restores: bitcode, callees, and the symbols that it mentions."""
        self._ensure_finalized()
        called = [piece.source for piece in pieces_of(self)]
        mentioned = {function.name for function in self._final_module.functions}
        names = [(piece.source, piece.symbol) for piece in below(self) if piece.symbol in mentioned]
        return self.name, self.source, called, names, self._final_module.as_bitcode()

    @classmethod
    def again(cls, codegen: Any, kept: tuple[Any, ...]) -> "Piece":
        """Restore a cached piece and its callees, renaming symbols to those of this process."""
        name, source, called, names, code = kept
        piece = cls(codegen, name)
        piece.source = source
        for each in called:
            piece.add_linking_library(piece_of(each))
        piece._final_module = llvm.parse_bitcode(code)
        for each, before in names:
            piece._final_module.get_function(before).name = piece_of(each).symbol
        piece.settle()
        return piece


def piece_of(source: tuple[str, str, tuple[Any, ...]]) -> Piece:
    """Return the piece of a function for some argument types, compiling it if it is not cached."""
    module, function, types = source
    dispatcher = getattr(sys.modules[module], function)
    dispatcher.compile(types)
    piece: Piece = dispatcher.overloads[types]._asdict()["library"]
    return piece


class Whole(JITCodeLibrary):
    """Function for Python, linked with all pieces below it."""

    def finalize(self) -> None:
        """Optimise the function like a piece, link the pieces, and generate machine code."""
        link_short(self)
        self._optimize_final_module()
        for piece in below(self):
            self._final_module.link_in(piece.module("linkonce_odr"))
        engine: Any = self._codegen
        passes = newpassmanagers.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, engine._pass_builder())
        self._final_module.verify()
        self.refuse_missing()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            if environment := lookup_environment(variable.name):
                engine.set_env(variable.name, environment)

    def refuse_missing(self) -> None:
        """Raise RuntimeError if a called function is neither linked nor loaded by Python."""
        declared = [function.name for function in self._final_module.functions if function.is_declaration]
        needed = [name for name in declared if not name.startswith("llvm.")]
        if missing := [name for name in needed if not llvm.address_of_symbol(name)]:
            raise RuntimeError(f"{self.name} calls undefined functions: {', '.join(missing)}")


def pieces_of(library: Any) -> list[Piece]:
    """Return the pieces that a library calls, without duplicates."""
    return [other for other in dict.fromkeys(library._linking_libraries) if isinstance(other, Piece)]


def link_short(library: Any) -> None:
    """Link Numba's own libraries, and the pieces that are short enough to be inlined."""
    for other in dict.fromkeys(library._linking_libraries):
        if isinstance(other, Whole):
            raise TypeError(
                f"{library.name} is compiled and must not call the entry {other.name}: "
                "move the shared code to a third function that is compiled"
            )
        library._reload_init.update(other._reload_init)
        if isinstance(other, Piece):
            refuse_foreign(library.source[0], other)
        if not isinstance(other, Piece):
            library._final_module.link_in(other._get_module_for_linking(), preserve=True)
        elif other.short:
            library._final_module.link_in(other.module("available_externally"))


def refuse_foreign(module: str, called: Piece) -> None:
    """Raise TypeError where a function calls one of another module outside the kernel.

    Its compiled code would outlive an edit of that module, since the cache looks at its own source and the kernel's.
    """
    home, name, _ = called.source
    if home != module and not home.startswith(f"{KERNEL}."):
        raise TypeError(
            f"{module} is compiled and calls {name} of {home}: compiled code may call its own module and {KERNEL}"
        )


def below(library: Any) -> list[Piece]:
    """Return all pieces that a library needs, callers first: LLVM links a `linkonce_odr` function only if called."""
    last_first: dict[Any, None] = {}
    seen = set()

    def visit(one: Any) -> None:
        for piece in pieces_of(one):
            if piece not in seen:
                seen.add(piece)
                visit(piece)
                last_first[piece] = None

    visit(library)
    return list(reversed(last_first))


class _Linking(Pipeline):
    kind: type

    def define_pipelines(self) -> Any:
        """Set the library of the function, and give the function a name that is unique and equal in all processes.

        Numba numbers functions, and types too, in the order in which they come.
        """
        state = self.state
        function = state.func_id
        identity = f"{function.modname}.{function.func_name}{[kind.name for kind in state.args]}"
        function.unique_id = int(hashlib.sha256(identity.encode()).hexdigest()[:15], 16)
        made = self.kind(state.targetctx.codegen(), function.func_qualname)
        made.source = (function.modname, function.func_name, tuple(state.args))
        made.enable_object_caching()
        state["library"] = made
        return super().define_pipelines()


class Pieces(_Linking):
    """Compiler that makes a piece of a function."""

    kind = Piece


class Wholes(_Linking):
    """Compiler that makes a whole of a function."""

    kind = Whole


class _PieceCacheImpl(caching.CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> CompileResult:
        kept, fndesc, environment, signature, *_, annotation, reload_init, referenced = payload
        piece = Piece.again(target_context.codegen(), kept)
        result: CompileResult = compile_result(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=piece,
            environment=environment,
            entry_point=target_context.get_executable(piece, fndesc, environment),
            fndesc=fndesc,
            type_annotation=annotation,
            signature=signature,
            objectmode=False,
            lifted=(),
            reload_init=reload_init,
            referenced_envs=referenced,
        )
        return result


class _PieceCache(caching.FunctionCache):
    _impl_class = _PieceCacheImpl


def keep_pieces(dispatcher: Any) -> None:
    """Cache a function as pieces, and compile it for a single width of integers."""
    dispatcher._cache = _PieceCache(dispatcher.py_func)
    as_it_is = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: as_it_is(
        [widened(kind) for kind in args], {name: widened(kind) for name, kind in kws.items()}
    )


def widened(kind: Any) -> Any:
    """Return the type with which an argument is passed: a signed integer has the width of Numba's default integer."""
    if isinstance(kind, types.Literal):
        kind = kind.literal_type
    return types.int64 if kind in types.signed_domain else kind
