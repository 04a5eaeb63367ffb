// Package jq runs jq programs that a language model has written: on gojq, bounded in time and memory.
//
// gojq's machine asks its context before every instruction, so a program that never ends is stopped there. One instruction can still do
// much: "x" * 1e9, .[1e9] = 1, a regular expression, tojson of an array that holds itself thirty times over. Therefore a program is
// rewritten before it is compiled. Each function and operator that can make more out of its input than there was, or that walks a
// whole tree without looking up, is called behind a guard (guards.jq) that refuses the case which would not end soon; sorting and matching
// are our own, because they must be interruptible. Functions that are neither harmless nor guarded are refused, also new ones of a later
// gojq. Between instructions the heap of the process is looked at. One program runs at a time in a process, since nothing else tells whose
// memory it is. Tenants take turns of a few milliseconds: a long program is paused while others run (pool.go). A program of a great many
// rows that begins with .[] or map(f) gets them one by one.
//
// # What is not there
//
// env and $ENV, input and inputs, modules, debug and stderr, input_filename, $__loc__, builtins, halt, jn and yn.
//
// # What is lost
//
// Numbers that a program only passes on keep every digit. Integers count exactly, however long; other numbers are float64 as soon as
// something is computed with them. NaN becomes null and infinities the greatest float64. Members of an object that the program passes on
// come out sorted by name.
package jq
