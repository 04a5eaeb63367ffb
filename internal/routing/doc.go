// Package routing decides which agent answers a request that names none.
//
// A [Compiler] turns route tables into a [Router], one per tenant and version of the catalog. A Router decides like this:
//
//  1. The rules of the tenant's own tables come before those of the shared ones. Within each group the higher priority comes first;
//     among equals the table's name and then the order in the table decide.
//  2. The first rule whose conditions all hold, and whose agent is available, decides. Disabled rules never do.
//  3. No such rule: the default agent of an own table, then of a shared one, available ones only.
//  4. Nothing: the decision names no agent.
//
// A request that names an agent gets it. The rules are evaluated all the same, to say whether they would have chosen another.
//
// # Conditions
//
// Of a list of roles, pages, channels or tenants one entry must be equal, or end in * and be how the word begins; * alone is anything,
// nothing included.
//
// Flags and metadata are JSON values as encoding/json decodes them into any; Go's own numbers are fine as well. Numbers are equal as
// 64-bit floats: 1 is 1.0. What a request leaves out is the same as null, and for a flag also the same as false.
//
// # Expressions
//
// An expression is CEL (cel.dev) of type bool with the standard functions and macros, the string extensions (charAt, format, indexOf,
// join, lastIndexOf, lowerAscii, replace, reverse, split, strings.quote, substring, trim, upperAscii), and
//
//   - hash(string) int: 0 to 2^63-1, the first eight bytes of the text's SHA-256, big endian, shifted right by one bit. It is the same
//     in every process and release, for ever: rollouts depend on it.
//   - percent(string) int: 0 to 99 evenly, hash(s) % 100.
//   - percent(string, string) int: the same with a salt, hash(salt + "\x00" + s) % 100, so that two rollouts choose independently.
//
// Its variables are role, page, channel, tenant, user, session and agent (strings, empty when not given; agent is what the request
// names), flags and metadata (maps of string to anything). Reading a key that is not there is an error: ask has(metadata.plan) first.
//
// An expression that fails does not match; a turn never fails for it. It is bounded: its length and shape when the table is checked,
// its steps, the size of its values (texts of 200 KB, lists of 20,000) and its time when it runs.
package routing
