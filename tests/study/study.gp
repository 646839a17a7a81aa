# SPDX-License-Identifier: Apache-2.0
# Plots the differences of each mode's accuracy to that without the shim:
#
#   gnuplot -e "file='STUDY.dat'; picture='FILE.svg'" study.gp
#
# Each block of the file is one network, named in its first line. Each other line is a mode: its position and name, the
# mean difference, and its standard error. Dashed lines: the limits, 0.1 and 0.3 points.
set terminal svg size 840, 420 background "white" font "sans-serif,12" noenhanced
set output picture
stats file using 1 name "POSITION" nooutput
stats file using 3 name "DIFFERENCE" nooutput
set ylabel "test accuracy minus that without the shim, points"
set xrange [POSITION_min - 0.5:POSITION_max + 0.5]
set yrange [(DIFFERENCE_min < -0.35 ? DIFFERENCE_min - 0.1 : -0.4): \
    (DIFFERENCE_max > 0.35 ? DIFFERENCE_max + 0.1 : 0.4)]
set xtics scale 0
set key bottom left
blocks = POSITION_blocks
beside(position, network) = position + 0.16 * (network - 0.5 * (blocks - 1))
plot 0 linecolor "black" notitle, \
    for [aim in "-0.3 -0.1 0.1 0.3"] real(aim) dashtype 2 linecolor "gray60" notitle, \
    for [network = 0:blocks - 1] file index network using (beside($1, network)):3:4 \
        with yerrorbars pointtype 7 pointsize 0.6 linewidth 2 title columnheader(1), \
    for [network = 0:blocks - 1] file index network using 1:(NaN):xtic(2) notitle
