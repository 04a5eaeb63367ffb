// Package expr evaluates the conditions of workflow definitions and renders their templates.
//
// A condition is CEL (cel.dev) with the standard functions and macros, and lowerAscii, upperAscii, trim, substring, charAt, split, format,
// join and replace of texts. Its variables are the members of the node's input by name, and
//
//	input  the whole input
//	row    one row of the input, or the whole input if it has no rows
//	steps  outputs of earlier nodes, by node id: steps.fetch.total
//	run    run_id, workflow_tag, …
//
// Any other name is a member of the input, which may be missing. JSON has one type of number, so price * 2 < 900.5 and total / 3 work for
// integers and floating-point numbers alike.
//
// An input that is a list, or an object with a list "rows", has rows. A condition that reads members or row is evaluated for each row. If any
// row satisfies it, it is true, and only the matching rows follow the edge "true". Otherwise all rows follow the edge "false". A condition that
// reads only input, steps and run is evaluated once.
//
// A comparison with a missing or null member is neither true nor false: a row without a price satisfies neither price < 500 nor
// !(price < 500). It satisfies price < 500 || seats > 3 if it has more than 3 seats.
//
// A template has expressions in {{ }}. If the input has rows, members are those of the first row. A missing value is empty text; in a URL it is an
// error.
package expr
