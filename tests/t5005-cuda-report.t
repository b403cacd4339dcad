#!/bin/bash
# What the CUDA kernels move, each in one call on the double, and the report that is made of it.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/counts" ] || skip_all "CUDA is ${MG_CUDA:-off}"
report=$MG_SRCDIR/tests/cuda/report

# ---- bytes and bank conflicts, of each op
run "$programs/counts"
is "$status $(grep -A 2 '^not ok\|^Bail' <<<"$out")" "0 " \
    "streaming kernels move at most 1.1 times what they need, or have a reason" || diag "$err"
is "$err" "" "no race, no access out of bounds"
echo "$out" >counts
ok "[ $(grep -c '^count' counts) -ge 50 ]" "of all ops but those of a few numbers"
is "$(awk -F'\t' '$1 == "count" && $4 <= 0' counts)" "" "(each needs some bytes)"

# ---- the calls
run "$report" counts
is "$status $err" "0 " "a report without logs of nvcc"
like "$out" $'\n'"gelu_fwd +stream +[0-9]+ +1.00 +1.00 +- memory +1.00" "has a call's bytes and share"
like "$out" $'\n'"norm_fwd +reads the weight" "the reasons"
like "$out" "not counted .*: gemm " "what it lacks"
like "$out" "forward +counts allow +[0-9]+ +FlashAttention-2 309 to 370" "attention beside its goal"
like "$out" "backward +counts allow +[0-9]+ +FlashAttention-2 214 to 322" "(and backward)"
like "$out" "ceiling +593: mma.sync" "and its ceiling"
run "$report" --shares counts
is "$(wc -l <<<"$out") $status" "$(grep -c '^count' counts) 0" "--shares: a line a call"
like "$out" $'(^|\n)fill\t1.000' "with its name and share"

# One call by hand: 300 bytes at 3 TB/s, of which the kernel moves 600, with exponentials that take
# 1000 / (16 x 132 x 1.755e9) s.
printf 'count\tone\tstream\t300\t0\t600\t600\t9\t3\t1000\t0\tbecause\n' >one
run "$report" one
like "$out" $'\n'"one +stream +300 +2.00 +2.00 +3.00 exps +0.37" "the longest time decides"
printf 'count\tattention_fwd\tproduct\t300\t593400000\t300\t300\t0\t0\t0\t144873\t\n' >one
run "$report" one
like "$out" "forward +counts allow +593 " "products by mma.sync reach the ceiling at best"

# ---- the kernels
cat >k.nvcc.log <<'END2'
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'
ptxas info    : Function properties for _Z1kPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 128 bytes smem
ptxas info    : Compiling entry function '_Z1lPf' for 'sm_80'
ptxas info    : Function properties for _Z1lPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
END2
cat >cuobjdump <<'END2'
#!/bin/sh
cat <<'END3'
arch = sm_90
		Function : _Z1kPf
        /*0000*/                   LDG.E R1, [R2] ;                  /* 0x0000 */
                                                                     /* 0x0001 */
        /*0010*/               @P0 HMMA.16816.F32 R4, R5, R6, R7 ;   /* 0x0002 */
        /*0020*/                   EXIT ;                            /* 0x0003 */
END3
END2
chmod +x cuobjdump
touch k.nvcc.o
printf 'launch\t_Z1kPf\t256\t100000\nlaunch\t_Z1lPf\t512\t0\n' >>one
run env CUOBJDUMP="$PWD/cuobjdump" "$report" one k.nvcc.log
is "$status $err" "0 " "a report with a log"
# 65536 / (128 x 32) warps are 16, two blocks; 227 KiB and a block's 98 KiB and 1 KiB allow two.
like "$out" $'\n'"sm_90 +128 +128 +100000 +256 +0.25 +3 +1 +0 +0 +0 +1 +0 +0  k" \
    "registers, shared memory, occupancy, instructions"
like "$out" $'\n'"sm_80 +30 +0 +0 +512 +1.00 +- .*  l" "of each architecture"
run "$report" nowhere
is "$status $err" "2 report: want a file of counts, and logs of nvcc" "without counts it says so"
logs=("$MG_BUILDDIR"/kernels/cuda/*.nvcc.log)
run "$report" counts "${logs[@]}"
is "$status" 0 "the report of all kernels"
ok "[ $(grep -c '^sm_' <<<"$out") = $(cat "${logs[@]}" | grep -c 'Compiling entry') ]" "has each of them"
done_testing
