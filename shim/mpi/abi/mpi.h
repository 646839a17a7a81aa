/* SPDX-License-Identifier: Apache-2.0 */
/* The part of MPI that the engine uses, with the values that MPI 5.0 fixes for all libraries with
 * its standard ABI: chapter 20 (Application Binary Interface) for the types, annex A.1 (Defined
 * Values and Handles) for the values. So libcompshim-abi.so can be built without an MPI library.
 * Not a header for programs; tests/mpi/abi.sh compares it with a library's own.
 *
 * Predefined handles are small integers, cast to pointers. */
#ifndef CSHIM_MPI_ABI_H
#define CSHIM_MPI_ABI_H

#include <stdint.h>

#define MPI_VERSION 5

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef MPI_Offset MPI_Count;

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

#define MPI_OP_NULL ((MPI_Op)0x20)
#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MIN ((MPI_Op)0x22)
#define MPI_MAX ((MPI_Op)0x23)

#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)
#define MPI_INFO_NULL ((MPI_Info)0x130)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x141)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)

#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_INT ((MPI_Datatype)0x209)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x20f)
#define MPI_FLOAT ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX ((MPI_Datatype)0x212)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_REAL ((MPI_Datatype)0x21a)
#define MPI_COMPLEX ((MPI_Datatype)0x21b)
#define MPI_DOUBLE_PRECISION ((MPI_Datatype)0x21c)
#define MPI_DOUBLE_COMPLEX ((MPI_Datatype)0x21d)
#define MPI_CHAR ((MPI_Datatype)0x243)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_UINT16_T ((MPI_Datatype)0x249)
#define MPI_UINT64_T ((MPI_Datatype)0x259)
#define MPI_REAL2 ((MPI_Datatype)0x2ca)
#define MPI_REAL4 ((MPI_Datatype)0x2d2)
#define MPI_REAL8 ((MPI_Datatype)0x2da)
#define MPI_COMPLEX8 ((MPI_Datatype)0x2db)
#define MPI_COMPLEX16 ((MPI_Datatype)0x2e3)

enum {
    MPI_SUCCESS = 0,
    MPI_ERR_REQUEST = 7,
    MPI_ERR_TRUNCATE = 15,
    MPI_ERR_PENDING = 18,
    MPI_ERR_IN_STATUS = 19,
    MPI_ERR_NO_MEM = 39
};

enum {
    MPI_UNDEFINED = -32766,
    MPI_COMBINER_NAMED = 101,
    MPI_COMM_TYPE_SHARED = 221,
    MPI_TAG_UB = 501
};

#define MPI_IN_PLACE ((void *)1)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)

#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_LIBRARY_VERSION_STRING 8192
#define MPI_MAX_PORT_NAME 1024

typedef void MPI_User_function(void *in, void *inout, int *length, MPI_Datatype *datatype);
typedef int MPI_Comm_copy_attr_function(MPI_Comm comm, int keyval, void *extra, void *from,
                                        void *to, int *flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm comm, int keyval, void *value, void *extra);
typedef void MPI_Comm_errhandler_function(MPI_Comm *comm, int *code, ...);
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function *)0)

int PMPI_Abort(MPI_Comm comm, int code);
int PMPI_Barrier(MPI_Comm comm);
int PMPI_Close_port(const char *port);
int PMPI_Comm_call_errhandler(MPI_Comm comm, int code);
int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *created);
int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *created);
int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *handler);
int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete_attr, int *keyval, void *extra);
int PMPI_Comm_free(MPI_Comm *comm);
int PMPI_Comm_free_keyval(int *keyval);
int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag);
int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler);
int PMPI_Comm_get_parent(MPI_Comm *parent);
int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group);
int PMPI_Comm_rank(MPI_Comm comm, int *rank);
int PMPI_Comm_remote_group(MPI_Comm comm, MPI_Group *group);
int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value);
int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int PMPI_Comm_size(MPI_Comm comm, int *size);
int PMPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *created);
int PMPI_Comm_test_inter(MPI_Comm comm, int *flag);
int PMPI_Errhandler_free(MPI_Errhandler *handler);
int PMPI_Error_class(int code, int *error_class);
int PMPI_Error_string(int code, char *text, int *length);
int PMPI_Get_library_version(char *version, int *length);
int PMPI_Group_free(MPI_Group *group);
int PMPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *included);
int PMPI_Group_translate_ranks(MPI_Group from, int n, const int ranks[], MPI_Group to,
                               int translated[]);
int PMPI_Irecv(void *buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
               MPI_Request *request);
int PMPI_Isend(const void *buffer, int count, MPI_Datatype datatype, int destination, int tag,
               MPI_Comm comm, MPI_Request *request);
int PMPI_Lookup_name(const char *service, MPI_Info info, char *port);
int PMPI_Open_port(MPI_Info info, char *port);
int PMPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op);
int PMPI_Op_free(MPI_Op *op);
int PMPI_Publish_name(const char *service, MPI_Info info, const char *port);
int PMPI_Recv(void *buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Status *status);
int PMPI_Recv_init(void *buffer, int count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Request *request);
int PMPI_Request_get_status(MPI_Request request, int *done, MPI_Status *status);
int PMPI_Send(const void *buffer, int count, MPI_Datatype datatype, int destination, int tag,
              MPI_Comm comm);
int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status);
int PMPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]);
int PMPI_Testsome(int count, MPI_Request requests[], int *done, int indices[],
                  MPI_Status statuses[]);
int PMPI_Type_get_envelope(MPI_Datatype datatype, int *integers, int *addresses, int *datatypes,
                           int *combiner);
int PMPI_Type_size(MPI_Datatype datatype, int *size);
int PMPI_Wait(MPI_Request *request, MPI_Status *status);
int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]);

#endif
