// Package offline is the model that needs no network: a small deterministic intent parser behind a real HTTP server that speaks the
// OpenAI chat-completions wire format, so that the code that talks to real providers runs (DESIGN §9). It has no general knowledge and
// says so.
//
// # What it understands
//
// Prompts that fetch rows become one call of execute_pipeline, when the request offers that tool:
//
//	fetch flights from NYC to LAX, sort by price, show top 3
//	cheapest 5 flights from SFO to JFK, nonstop, only id and price
//	fetch https://api.example.com/items, where price < 20 and name contains foo, sort by rating descending, top 10
//	now filter those under $500            (no source: goes on with the rows the conversation has)
//	fetch flights, sort by price, top 3    (no route: NYC to LAX, and the answer says so)
//
// In a few words the grammar is: clauses in any order, with or without commas; words it does not know are passed over, and the answer
// names them.
//
//	source     URL | fetch HOST/PATH | [flights] [from] PLACE to PLACE, a code of three letters or one of a few cities
//	filter     where TEST ((and|or) TEST)… | TEST | under|over|at most|at least|between … $N | nonstop | at most N stops
//	TEST       [not] FIELD (< <= > >= = != | is | contains | matches | in (A, B) | exists) VALUE
//	sort       (sort|sorted|order|ordered) by FIELD [asc…|desc…] | cheapest | most expensive | fastest | slowest
//	top        top N | first N | cheapest N | limit N | show N
//	select     only|just FIELD, FIELD and FIELD
//
// The steps are always source, filter, sort, top, select. The argument session_id is taken from a line "Session: <id>" in a system
// message, else it is "offline". Answers about tool results are Markdown.
//
// # For load and fault tests
//
//	say 300 words             300 numbered words: "word1 word2 …", one token each (at most 100,000)
//	say 300 words slowly      the same, 50 ms for each token
//	fetch twice flights …     two parallel tool calls with the same arguments
//
// The same request always gets the same answer, tool call ids included.
package offline
