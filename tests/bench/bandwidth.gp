# SPDX-License-Identifier: Apache-2.0
# Plots bandwidth over size, in one panel per file. Each block of a file is one curve, named in its first line. The
# comment at the top of the file is the panel's title.
#   gnuplot -e "files='A.dat B.dat'; picture='FILE.svg'" bandwidth.gp
set terminal svg size 420 * words(files), 420 background "white" font "sans-serif,12" noenhanced
set output picture
set multiplot layout 1, words(files)
set logscale xy
set xlabel "buffer, bytes"
set ylabel "GB of float32 all-reduced per second"
set format x "%.0b %B"
set xtics 1024, 16
set grid
set key bottom right
do for [file in files] {
    stats file using 1:2 nooutput
    set title system("head -n 1 " . file . " | cut -c 3-")
    plot for [curve = 0:STATS_blocks - 1] file index curve using 1:2 with linespoints \
        title columnheader(1)
}
unset multiplot
