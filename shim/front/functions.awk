# SPDX-License-Identifier: Apache-2.0
# Writes C from a list of functions, mpi.def, nccl.def or gloo.def, where the columns are explained:
#
#   awk -v part=PART -f functions.awk LIST
#
#   names     except for nccl, enum cshim_LIBRARY_counted; names of functions, for reports and tools
#   engine    enum cshim_LIBRARY_index and, except for gloo, struct cshim_LIBRARY_real and struct
#             cshim_LIBRARY_wrapped, for shim/LIBRARY/engine.h
#   wrappers  the exported wrappers and the table of functions, for shim/front/LIBRARY.c

function fail(text) {
    print "functions.awk: " FILENAME ":" FNR ": " text >"/dev/stderr"
    failed = 1
    exit 1
}

# Breaks a line of C after commas, at 100 columns.
function fold(text,    lines, indent, at) {
    match(text, /^ */)
    indent = sprintf("%" (RLENGTH + 8) "s", "")
    while (length(text) > 100) {
        for (at = 100; at > 0 && substr(text, at, 2) != ", "; at--)
            continue
        lines = lines substr(text, 1, at) "\n"
        text = indent substr(text, at + 2)
    }
    return lines text
}

# Reads a prototype into type, name, parameters and arguments[1..count].
function parse(prototype,    open, i) {
    open = index(prototype, "(")
    parameters = substr(prototype, open + 1, length(prototype) - open - 1)
    match(prototype, /[A-Za-z0-9_]+\(/)
    type = substr(prototype, 1, RSTART - 1)
    name = substr(prototype, RSTART, RLENGTH - 1)
    count = parameters == "void" ? 0 : split(parameters, declared, ", ")
    for (i = 1; i <= count; i++) {
        match(declared[i], /[A-Za-z0-9_]+(\[\])?$/)
        arguments[i] = substr(declared[i], RSTART)
        sub(/\[\]/, "", arguments[i])
    }
}

# Joins the elements of an array with commas.
function list(array,    i, text) {
    for (i = 1; i <= count; i++)
        text = text (i > 1 ? ", " : "") array[i]
    return text
}

# Changes the parameters to those of MPI_X_c. Sets `narrowed` to the arguments of MPI_X in its emulation:
# counts, and displacements of type int, are members of struct cshim_narrowed.
function enlarge(    i, name, side) {
    are_addresses = parameters ~ /MPI_Aint/
    for (i = 1; i <= count; i++) {
        name = narrowed[i] = arguments[i]
        side = name ~ /^r/ ? "received." : "sent."
        if (name ~ /counts?$/ && sub(/int /, "MPI_Count ", declared[i]))
            narrowed[i] = side (name ~ /s$/ ? "counts" : "count")
        else if (name ~ /displs$/ && !are_addresses && sub(/int /, "MPI_Aint ", declared[i]))
            narrowed[i] = side "displacements"
    }
    parameters = list(declared)
}

# Adds lines to the wrappers.
function emit(text) {
    code = code text "\n"
}

# Returns the expression that converts one side of a call, "send" or "recv", to int.
function narrow_side(side,    entries, displacements) {
    if (parameters ~ "MPI_Count " side "count,")
        return "cshim_narrow_one(" side "count)"
    if (parameters !~ "MPI_Count " side "counts")
        return "cshim_narrow_one(" (side == "send" && parameters ~ /MPI_Count count,/ ? "count)" : "0)")
    if (large == "own_group")
        entries = "CSHIM_OWN_GROUP"
    else if (large == "root")
        entries = "cshim_entries_at_root(root, comm)"
    else if (large == "neighbors")
        entries = side == "send" ? "CSHIM_DESTINATIONS" : "CSHIM_SOURCES"
    else if (large == "partners")
        entries = side == "send" ? "cshim_entries_sent(sendbuf)" : "CSHIM_PARTNERS"
    else
        fail("in the third column: " large)
    displacements = substr(side, 1, 1) "displs"
    if (are_addresses || parameters !~ displacements)
        displacements = "NULL"
    return "cshim_narrow_arrays(" entries ", " side "counts, " displacements ", comm)"
}

# Writes the emulation of MPI_X_c by MPI_X.
function write_narrowing() {
    emit("\n" fold("static int " name "_with_int(" parameters ")") "\n{")
    emit(fold("    struct cshim_narrowed sent = " narrow_side("send") ";"))
    emit(fold("    struct cshim_narrowed received = " narrow_side("recv") ";"))
    emit("    __typeof__(" name ") *function = find_function(&functions[CSHIM_INDEX_" name "], NULL, true);")
    emit("    int status = cshim_narrow_judge(\"" name "\", &sent, &received, comm);")
    emit("    if (status == 0)")
    emit(fold("        status = function != NULL ? function(" list(narrowed) ") : NOT_FOUND;"))
    emit("    return cshim_narrow_end(\"" name "\", &sent, &received, status);\n}")
}

# Returns the statement that counts a call, with the buffer, count and datatype whose bytes it adds up.
function counting(    i) {
    for (i = 1; i <= count && arguments[i] != row; i++)
        continue
    if (i > count && row != "calls")
        fail("in the second column: " row)
    return "call.engine->count(CSHIM_COUNTED_" name ", " \
        (i > count ? "NULL, 0, NULL" : row ", " arguments[i + 1] ", " arguments[i + 2]) ", comm);"
}

# Returns a function's name in the structs of functions: MPI's as it is, NCCL's without the prefix nccl.
function member(symbol) {
    return library == "mpi" ? symbol : substr(symbol, 5)
}

# Returns true if the engine may compress a PMPI call that a tool makes for the function.
function is_handed() {
    return library == "mpi" && kind ~ /^(compressed|by_rule)$/
}

# Returns the arguments as an initialiser of struct cshim_handed, without requests and hints: a tool may pass
# its own.
function handed(symbol,    i, numbers) {
    for (i = 1; i <= count; i++)
        if (declared[i] !~ /MPI_(Request|Info)/ && arguments[i] !~ /^(sendbuf|recvbuf|buffer)$/)
            numbers = numbers (numbers == "" ? "" : ", ") \
                (declared[i] ~ /^MPI_(Datatype|Op|Comm) / ? "HANDLE(" : "NUMBER(") arguments[i] ")"
    return "{.index = CSHIM_INDEX_" symbol ", " (parameters ~ /sendbuf/ ? ".input = sendbuf, " : "") ".output = " \
        (parameters ~ /recvbuf/ ? "recvbuf" : "buffer") ", .numbers = {" numbers "}};"
}

# Writes the function that calls the tool's function. The tool then calls PMPI_X, whose wrapper calls the engine's.
function write_handing(symbol) {
    emit("\n" fold("CSHIM_EXPORT int " symbol "(" parameters ");"))
    emit(fold("static int " symbol "_by_tool(" parameters ")") "\n{")
    emit("    __typeof__(" symbol ") *function = next[CSHIM_INDEX_" symbol "];")
    emit(fold("    struct cshim_handed given = " handed(symbol)))
    emit("    nesting.handed = &given;")
    emit(fold("    return end_handed(&given, function(" list(arguments) "), comm);") "\n}")
    tools_first = tools_first tool_first(symbol, symbol "_by_tool")
}

# Returns the statement that makes MPI_X call the tool, if there is one, instead of the engine's function.
function tool_first(symbol, tool) {
    return "    if (functions[CSHIM_INDEX_" symbol "].has_tool)\n        by_program." symbol " = " tool ";\n"
}

# Writes the exported function `exported`: `symbol` itself or, for MPI, its PMPI name. Its kind, the first
# column of the list, says what it does.
function write_wrapper(symbol, exported,    has_own, is_profiled, otherwise, plain) {
    has_own = kind !~ /^(init|finalize|counted|configured)$/
    is_profiled = exported != symbol
    emit(is_profiled || !is_handed() ? "\n" fold("CSHIM_EXPORT " type exported "(" parameters ");") : "")
    emit(fold(type exported "(" parameters ")") "\n{")
    emit("    " type "status = NOT_FOUND;\n    struct call call;")
    emit(fold("    begin_" (is_profiled ? "profiled" : "call") "(&call, CSHIM_INDEX_" symbol ", __builtin_return_address(0)" \
        (library != "mpi" ? "" : kind == "request" ? ", true" : ", false") ");"))
    if (is_profiled && is_handed()) {
        emit("    if (__builtin_expect(tool_count > 0, 0)) {")
        emit(fold("        const struct cshim_handed made = " handed(symbol)))
        emit("        recognise(&call, &made);\n    }")
    }
    emit("    __typeof__(" symbol ") *function =" (has_own ? "" : " call.real;"))
    if (has_own)
        emit("        call.engine != NULL ? " (library == "mpi" && !is_profiled ? "by_program." : "call.engine->functions.") \
            member(symbol) " : call.real;")
    if (kind == "counted") {
        if (is_profiled)
            emit("    if (__builtin_expect(tool_count > 0, 0))\n        bypass_counted(&call, CSHIM_INDEX_" symbol ");")
        else
            emit("    struct cshim_handed given;")
        emit("    if (call.engine != NULL) {\n" fold("        " counting()))
        emit((is_profiled ? "" : "        record_counted(&given, CSHIM_INDEX_" symbol ");\n") "    }")
    }
    if (kind == "configured") {
        plain = list(arguments)
        sub(/, config$/, "", plain)
        plain = "." member(substr(symbol, 1, length(symbol) - length("Config"))) "(" plain ");"
        if (kinds_of[symbol] == "compressed")
            emit("    if (call.engine != NULL && config != NULL)\n        call.engine->count_configured(comm);")
        emit("    if (call.engine != NULL && config == NULL)\n" fold("        status = call.engine->functions" plain))
        otherwise = "else "
    }
    if (kind == "finalize")
        emit("    stop_engine();")
    emit("    " otherwise "if (function != NULL)\n" fold("        status = function(" list(arguments) ");"))
    emit("    cshim_leave(&nesting, &call.frame);")
    if (kind == "init")
        emit("    if (status == 0)\n        start_engine(call.real, __builtin_return_address(0));")
    emit("    return status;\n}")
}

# Adds a function to the tables and, unless its kind is `called`, its wrapper.
function add(symbol, properties,    declaration, plain) {
    indices = indices "    CSHIM_INDEX_" symbol ",\n"
    symbols[++symbol_count] = symbol
    entry[symbol] = ".name = \"" symbol "\"" properties
    declaration = fold("    " type "(*" member(symbol) ")(" parameters ");") "\n"
    real = real declaration
    plain = kind == "configured" ? substr(symbol, 1, length(symbol) - length("Config")) : symbol
    kinds_of[symbol] = plain == symbol ? kind : kinds_of[plain]
    if (is_handed())
        write_handing(symbol)
    else if (library == "mpi" && kind == "request")
        tools_first = tools_first tool_first(symbol, "next[CSHIM_INDEX_" symbol "]")
    if (kind != "called")
        write_wrapper(symbol, symbol)
    if (library == "mpi")
        write_wrapper(symbol, "P" symbol)
    if (library == "mpi" && kind ~ /^(compressed|by_rule|request)$/)
        entry[symbol] = entry[symbol] ", .is_engines = true"
    if (kind !~ /^(init|finalize|counted|configured|called)$/)
        wrapped = wrapped declaration
    if (kinds_of[symbol] == "compressed")
        compressed = compressed (compressed == "" ? "" : ",") " \\\n    \"" symbol "\""
}

# Adds a row to the counted functions.
function add_row(symbol, text) {
    rows = rows "    CSHIM_COUNTED_" symbol ",\n"
    row_names = row_names (row_names == "" ? "" : ",") " \\\n    \"" text "\""
}

# Adds a function of gloo, and its wrapper. All have the same type.
function add_gloo(symbol, address) {
    indices = indices "    CSHIM_INDEX_" symbol ",\n"
    symbols[++symbol_count] = symbol
    entry[symbol] = ".name = \"" address "\""
    emit("\nCSHIM_EXPORT void cshim_" symbol "(const void *options)")
    emit("    __asm__(\"" address "\");")
    emit("void cshim_" symbol "(const void *options)\n{")
    emit("    const struct call call = begin_call(CSHIM_INDEX_" symbol ", __builtin_return_address(0));")
    if (kind != "compressed")
        add_row(symbol, "gloo::" substr(symbol, 6))
    if (kind == "counted") {
        emit("    if (call.engine != NULL)")
        emit("        call.engine->count(CSHIM_MPI_COUNTED + CSHIM_COUNTED_" symbol ", options);")
        emit("    call.real(options);\n}")
    } else {
        if (kind == "compressed")
            compressed = compressed " \"" address "\""
        emit("    if (call.engine != NULL)")
        emit("        call.engine->make(CSHIM_INDEX_" symbol ", call.real, options);")
        emit("    else\n        call.real(options);\n}")
    }
}

BEGIN {
    library = ARGV[1]
    sub(/.*\//, "", library)
    sub(/\.def$/, "", library)
    columns = library == "mpi" ? "^[^ ]+ +[^ ]+ +[^ ]+ +" : "^[^ ]+ +"
    kinds = library == "mpi" ? "init finalize compressed by_rule request counted" : \
        library == "gloo" ? "compressed by_rule counted" : "start communicator compressed by_rule configured engine called"
}

/^#/ || NF == 0 {
    next
}

{
    kind = $1
    row = library == "mpi" ? $2 : "-"
    large = library == "mpi" ? $3 : "-"
    if (index(" " kinds " ", " " kind " ") == 0)
        fail("in the first column: " kind)
    if (library == "gloo") {
        add_gloo("gloo_" $2, $3)
        next
    }
    sub(columns, "")
    parse($0)
    add(name, library == "nccl" ? ", .kind = " toupper(kind) : "")
    if (row != "-")
        add_row(name, name)
    if (large == "older")
        entry["MPI_" substr(name, 6)] = entry["MPI_" substr(name, 6)] ", .older = \"" name "\""
    else if (large != "-") {
        enlarge()
        write_narrowing()
        add(name "_c", ", .with_int = &functions[CSHIM_INDEX_" name "], .emulation = " name "_with_int")
    }
}

END {
    if (failed)
        exit 1
    print "/* Written by shim/front/functions.awk from " FILENAME ". */"
    if (part == "names") {
        guard = "CSHIM_" toupper(library) "_NAMES_H"
        print "#ifndef " guard "\n#define " guard "\n"
        if (library != "nccl") {
            print "/* The rows of functions that are counted in a report. */"
            print "enum cshim_" library "_counted {\n" rows "    CSHIM_" toupper(library) "_COUNTED\n};"
            print "#define CSHIM_" toupper(library) "_COUNTED_NAMES" row_names "\n"
        }
        print "/* The functions that an engine compresses. */"
        print "#define CSHIM_" toupper(library) "_COMPRESSED_NAMES" compressed "\n\n#endif"
    }
    if (part == "engine") {
        print "/* The functions, in the order of the list. */"
        print "enum cshim_" library "_index {\n" indices "    CSHIM_" toupper(library) "_FUNCTIONS\n};"
    }
    if (part == "engine" && library != "gloo") {
        print "struct cshim_" library "_real {\n" real "};"
        print "struct cshim_" library "_wrapped {\n" wrapped "};"
    }
    if (part == "wrappers") {
        if (library == "mpi")
            print code "\nstatic void put_tools_first(void)\n{\n" tools_first "}"
        else
            print code
        print "\nstatic struct function functions[CSHIM_" toupper(library) "_FUNCTIONS] = {"
        for (i = 1; i <= symbol_count; i++)
            print fold("    [CSHIM_INDEX_" symbols[i] "] = {" entry[symbols[i]] "},")
        print "};"
    }
}
