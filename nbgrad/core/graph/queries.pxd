cimport cython
from nbgrad.core.graph.record cimport Record

@cython.locals(places=dict, edges=list, record=Record, position=Py_ssize_t)
cdef list _edges(list records)
