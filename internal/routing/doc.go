// Package routing decides which agent answers a request that names none.
//
// A [Compiler] compiles route tables to a [Router], one for each tenant and revision of the catalog. A Router decides as follows:
//
//  1. The rules of the tenant's own tables come before those of shared tables. Within each group, rules are sorted by priority, highest first, then
//     by the name of the table, then by their order in the table.
//  2. The first enabled rule whose conditions all hold, and whose agent is available, decides.
//  3. If there is no such rule, the default agent of an own table, or else of a shared table, is chosen, if it is available.
//  4. Otherwise the decision has no agent.
//
// A request that names an agent gets it. The rules are evaluated anyway, to report whether they would have chosen another agent.
//
// # Conditions
//
// An entry of a list of roles, pages, channels or tenants must equal the value of the request, or end in * and be a prefix of it. The entry * matches
// every value, including an empty one.
//
// Flags and metadata are decoded JSON values, or any Go numbers. Numbers are compared as 64-bit floats: 1 equals 1.0. A missing value equals null. A
// missing flag also equals false.
//
// # Expressions
//
// An expression is CEL (cel.dev) of type bool with the standard functions and macros, the string extensions (charAt, format, indexOf,
// join, lastIndexOf, lowerAscii, replace, reverse, split, strings.quote, substring, trim, upperAscii), and
//
//   - hash(string) int: 0 to 2^63-1, the first eight bytes of the text's SHA-256, big endian, shifted right by one bit. It must never change, because
//     rollouts depend on it.
//   - percent(string) int: 0 to 99 evenly, hash(s) % 100.
//   - percent(string, string) int: the same with a salt, hash(salt + "\x00" + s) % 100, so that two rollouts choose independently.
//
// Its variables are role, page, channel, tenant, user, session and agent (strings; empty if missing; agent is the agent that the request names),
// flags and metadata (maps of string to any value). Reading a missing key is an error; test it with has(metadata.plan) first.
//
// An expression that fails does not match, and never fails a turn. Its length and shape are bounded when the table is checked, and its steps, the
// size of its values (texts of 200 KB, lists of 20,000) and its time when it runs.
package routing
