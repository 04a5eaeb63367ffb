// Package jq runs jq programs that a language model has written, with gojq.
//
// gojq asks its context between instructions alone, and one of its instructions can take minutes or gigabytes: "x" * 1e9, .[1e9] = 1, tojson
// of an array that holds itself thirty times over. So a program runs in a child process, which is the same executable started again with an
// empty environment (child.go). The child ends itself when the program takes more processor time or memory than it may; whatever happens
// to it, the worker goes on. A child that is well runs the next program, and ends after a minute without one.
//
// At most four programs run at a time, of different tenants (pool.go). A program of the form .[] | f, map(f) or [.[] | f] gets its rows one
// by one, so that the table need not fit into its memory.
//
// Programs have no environment, no modules and no further input. Numbers that a program only passes on keep every digit.
package jq
