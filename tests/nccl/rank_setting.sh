#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts a rank of tests/nccl/launch.sh with a setting that only some ranks get.
#   tests/nccl/rank_setting.sh RANKS VARIABLE=VALUE PROGRAM...   RANKS: the ranks that get it, as "0 2"
ranks=$1 setting=$2
shift 2
case " $ranks " in *" $RANK "*) exec env "$setting" "$@" ;; esac
exec "$@"
