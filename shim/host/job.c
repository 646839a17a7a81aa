/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/job.h"

struct cshim_job cshim_job;
