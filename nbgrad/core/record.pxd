cdef class Record:
    cdef public object _name
    cdef public object _notes
    cdef public tuple _sources
    cdef public object _thing
    cdef public object device
    cdef public object dtype
    cdef public object id
    cdef public object kind
    cdef public object op
    cdef public object place
    cdef public object scope
    cdef public dict settings
    cdef public object shape
