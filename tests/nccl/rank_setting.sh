#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts a rank of tests/nccl/launch.sh with settings of its own.
#   tests/nccl/rank_setting.sh RANKS VARIABLE=VALUE PROGRAM...   only the ranks listed ("0 2") get it
ranks=$1 setting=$2
shift 2
case " $ranks " in *" $RANK "*) exec env "$setting" "$@" ;; esac
exec "$@"
