# pointers.awk - make pointers.c of kernels.h and moe.h: where the pointers are in the arguments of
# each operation of KERN_OPS, also those in structs inside of these.
# The line without comments; "comment": the last one goes on.
function code (line,    at, rest)
{
    for (;;) {
        if (comment) {
            if (!(at = index (line, "*/")))
                return ""
            line = substr (line, at + 2)
            comment = 0
        }
        if (!(at = index (line, "/*")))
            return line
        rest = substr (line, at + 2)
        line = substr (line, 1, at - 1)
        if (!(at = index (rest, "*/"))) {
            comment = 1
            return line
        }
        line = line " " substr (rest, at + 2)
    }
}

{
    line = code($0)
    while (match (line, /OP \([A-Z_]+, [a-z_]+\)/)) {
        split (substr (line, RSTART + 4, RLENGTH - 5), name, ", ")
        label[++ops] = name[1]
        op[ops] = name[2]
        line = substr (line, RSTART + RLENGTH)
    }
    if (line ~ /^struct kern_[a-z_]+ \{/) {
        split (line, name, " ")
        now = name[2]
    } else if (line ~ /^}/) {
        now = ""
    } else if (now != "") {
        text[now] = text[now] " " line
    }
}

# The pointers of a struct, each with the path to it.
function list (type, path,    n, m, i, j, member, part, written, inner, name)
{
    n = split (text[type], member, ";")
    for (i = 1; i <= n; i++) {
        written = member[i] !~ /^ *const /
        inner = ""
        if (match (member[i], /struct kern_[a-z_]+ /))
            inner = substr (member[i], RSTART + 7, RLENGTH - 8)
        m = split (member[i], part, ",")
        for (j = 1; j <= m; j++) {
            name = part[j]
            gsub (/\[[^]]*\]/, "", name)
            sub (/ +$/, "", name)
            sub (/.*[ *]/, "", name)
            if (name == "")
                continue
            if (part[j] ~ /\*/)
                printf "    { offsetof (struct kern_%s, %s%s), %s },\n", root, path, name, \
                    written ? "true" : "false"
            else if (inner != "")
                list(inner, path name ".")
        }
    }
}

END {
    print "/* pointers.c - made by pointers.awk of kernels.h and moe.h */"
    print "\n#include <stddef.h>\n\n#include \"kernels/kernels.h\""
    for (o = 1; o <= ops; o++) {
        root = op[o]
        printf "\nstatic const struct kern_pointer %s[] = {\n", root
        list("kern_" root, "")
        print "};"
    }
    print "\nstatic const struct {\n    const struct kern_pointer *list;\n    size_t count;"
    print "} known[KERN_NUM_OPS] = {"
    for (o = 1; o <= ops; o++)
        printf "    [KERN_%s] = { %s, sizeof (%s) / sizeof (%s[0]) },\n", label[o], op[o], op[o], \
            op[o]
    print "};\n"
    print "const struct kern_pointer *kern_op_pointers (enum kern_op op, size_t *count)\n{"
    print "    *count = known[op].count;\n    return known[op].list;\n}"
}
