// Package jq runs jq programs that a language model has written: gojq, bounded in time and memory.
//
// It rewrites gojq's syntax tree because gojq has no option that replaces its own functions and operators, and one of their instructions
// can take minutes or gigabytes: "x" * 1e9, .[1e9] = 1, a regular expression, tojson of an array that holds itself thirty times over.
// gojq asks its context between instructions alone, so a deadline ends only programs of many short ones.
//
// Each function and operator that can make more than it is given, or that walks a whole tree, is called behind a guard (guards.jq). A
// guard refuses values that would take too long. Sorting and matching are our own, because they must be interruptible. Any other function
// of gojq is refused unless it is on the list of harmless ones, so those of a later gojq are refused too. Between instructions a meter
// reads the heap of the process. One program runs at a time in a process, because nothing else tells whose memory it is. Tenants take
// turns of a few milliseconds: a long program is paused while others run (pool.go). A program that begins with .[] or map(f) gets its
// rows one by one.
//
// # What is not there
//
// env and $ENV, input and inputs, modules, debug and stderr, input_filename, $__loc__, builtins, halt, jn and yn.
//
// # What changes in a value
//
// Numbers that a program only passes on keep every digit. Integers count exactly, however long; other numbers are float64 as soon as
// something is computed with them. NaN becomes null and infinities the greatest float64. Members of an object that the program passes on
// come out sorted by name.
package jq
