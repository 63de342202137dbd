cimport cython

@cython.locals(places=dict, edges=list, position=Py_ssize_t)
cdef list _edges(list records)
