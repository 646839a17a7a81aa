# SPDX-License-Identifier: Apache-2.0
# Makes a manual page from its template and from the tables that the program itself reads:
#
#   awk -f page.awk [SOURCE.c...] PAGE.in
#
# The tables are those of struct tool_option (with the .name and .usage of their command below them)
# and of struct key. These lines of a template are filled from them:
#
#   .Usage COMMAND  arguments of the command
#   .Option NAME    an option, and its help, of the command that the subsection (.Ss) describes
#   .Key NAME       a key of policy.ini, and its help
#
# and these from the rows of codecs/formats.def, if it is an argument:
#
#   .Codecs bits    all codecs except raw, with bits per element
#   .Codecs order   all codecs, from the least to the most precise
#
# Text that follows such a line in the template adds to the help. An entry without a line is an error,
# and a line without an entry.

function fail(text) {
    print "page.awk: " FILENAME ":" FNR ": " text >"/dev/stderr"
    failed = 1
    exit 1
}

# Reads {"name", 'letter', ..., "ARGUMENT", "help"}; letter and argument may be missing.
function read_entry(entry,    letter, strings, count, place) {
    gsub(/" +"/, "", entry)
    letter = match(entry, /, '.',/) ? substr(entry, RSTART + 3, 1) : ""
    while (match(entry, /"([^"\\]|\\.)*"/)) {
        strings[++count] = substr(entry, RSTART + 1, RLENGTH - 2)
        entry = substr(entry, RSTART + RLENGTH)
    }
    if (count != 2 && count != 3)
        fail("an entry of a table with other than 2 or 3 strings")
    place = table SUBSEP strings[1]
    letters[place] = letter
    arguments[place] = count == 3 ? tolower(strings[2]) : ""
    helps[place] = strings[count]
    missing[place] = "'" strings[1] "' of " FILENAME
}

# Returns a line of help as a sentence, with a capital letter unless it is a list of words.
function sentence(text) {
    gsub(/\\"/, "\"", text)
    gsub(/--/, "\\-\\-", text)
    if (text !~ /^[a-z0-9_]+( \([^)]*\))?,/)
        text = toupper(substr(text, 1, 1)) substr(text, 2)
    return text "."
}

function print_item(place, macros) {
    if (!(place in helps))
        fail("no table has this")
    print ".It " macros (arguments[place] != "" ? " Ar " arguments[place] : "")
    print sentence(helps[place])
    delete missing[place]
}

function print_option(place, name) {
    print_item(place, (letters[place] != "" ? "Fl " letters[place] " , " : "") "Fl -" name)
}

# Prints a usage such as "--size SIZE | --all [--json] FILE...". Brackets contain a single word.
function print_usage(usage,    words, count, i, word, line) {
    count = split(usage, words, " ")
    for (i = 1; i <= count; i++) {
        word = words[i]
        gsub(/[][]/, "", word)
        sub(/\.\.\.$/, " ...", word)
        if (word ~ /^-/)
            word = "Fl " substr(word, 2)
        else if (word != "|")
            word = "Ar " tolower(word)
        if (words[i] ~ /^\[/) {
            print_line(line)
            print ".Op " word
            line = ""
        } else
            line = line " " word
    }
    print_line(line)
}

function print_line(line) {
    if (line != "")
        print "." substr(line, 2)
}

# Reads a row NAME(ID, NAME, name, ..., TYPICAL).
FILENAME ~ /\.def$/ {
    if (/^(RAW|UPPER|FLOAT|INTEGER) *\([0-9]/) {
        gsub(/[(),]+/, " ")
        bits[++codecs] = $1 == "FLOAT" ? 1 + $5 + $6 : $1 == "RAW" ? 0 : $5
        names[codecs] = $4
        errors[codecs] = $1 == "RAW" ? 0 : $NF
    }
    next
}

# Prints an item of a list of codecs, followed by a note, if any.
function print_codec(name, note, is_last) {
    print ".Cm " name (note != "" ? " No " note : "") (is_last ? " ." : " ,")
}

FILENAME ~ /\.c$/ {
    if (/^static const struct (tool_option|key) [a-z_]+\[\] = \{$/) {
        table = / key / ? "keys" : FILENAME
        inside = 1
    } else if (/^ *\{0\},$/ || /^\};$/)
        inside = 0
    else if (inside) {
        entry = entry $0
        if (/\},$/) {
            read_entry(entry)
            entry = ""
        }
    } else if (match($0, /^    \.(name|usage) = "/)) {
        value = substr($0, RLENGTH + 1)
        if (!sub(/",$/, "", value))
            fail("not on one line")
        if (/\.name/) {
            command = value
            tables[command] = FILENAME
            missing["usage of " command] = "the usage of '" command "'"
        } else
            usages[command] = value
    }
    next
}

$1 == ".Ss" { table = tables[$2] }
$1 == ".Usage" {
    if (!($2 in usages))
        fail("there is no command " $2)
    print ".Cm " $2
    print_usage(usages[$2])
    delete missing["usage of " $2]
    next
}
$1 == ".Option" {
    print_option(table SUBSEP $2, $2)
    next
}
$1 == ".Codecs" && $2 == "bits" {
    for (i = 2; i <= codecs; i++)
        print_codec(names[i], "(" bits[i] ")", i == codecs)
    next
}
$1 == ".Codecs" {
    for (left = codecs; left > 0; left--) {
        worst = 0
        for (i = 1; i <= codecs; i++)
            if (!(i in printed) && (!worst || errors[i] + 0 > errors[worst] + 0))
                worst = i
        print_codec(names[worst], "", left == 1)
        printed[worst] = 1
    }
    next
}
$1 == ".Key" {
    print_item("keys" SUBSEP $2, "Cm " $2 " No =")
    next
}
{ print }

END {
    if (!failed && entry != "")
        fail("the last entry of a table does not end")
    for (place in missing)
        if (!failed)
            fail("no line describes " missing[place])
}
