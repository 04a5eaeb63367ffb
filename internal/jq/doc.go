// Package jq runs jq programs that a language model has written, with gojq.
//
// gojq checks its context only between instructions, and one instruction can take minutes or gigabytes, such as "x" * 1e9, .[1e9] = 1, or tojson of
// an array that is nested in itself thirty times. So a program runs in a child process: the same executable, started with an empty environment
// (child.go, serve.go). The child ends itself when the program exceeds its processor time or memory, and the worker goes on. Otherwise the child
// runs the next program, and ends after a minute without one.
//
// At most four programs run at a time, of different tenants (pool.go). A program of the form .[] | f, map(f) or [.[] | f] gets its rows one by one, so
// that its memory need not hold the whole table.
//
// Programs have no environment, no modules and no other input. A number that a program does not compute with keeps all its digits.
package jq
