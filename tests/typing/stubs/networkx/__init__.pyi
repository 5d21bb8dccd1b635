from typing import Generic, TypeVar

_Node = TypeVar("_Node")

class MultiDiGraph(Generic[_Node]): ...
