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
// # Other tools
//
// When the request offers delegate_to_agent or write_todos, a prompt that begins with these words calls it, and the answer is what the
// other agent said, or the list:
//
//	ask helper: fetch flights from NYC to LAX      (also: ask NAME to …, delegate to NAME …)
//	plan: buy tea, boil water, drink               (at most 100 tasks, between commas, semicolons or lines)
//
// # Ask agents
//
// The steps of an ask agent are told by their system prompts, whatever else the request has:
//
//	classify        names the words retrieval, code and conversational, and wants "one of these words", "one word" or "nothing else":
//	                greetings, thanks and questions about the assistant are conversational; what mentions code, a function, a script, a
//	                snippet or an example is code; all else is retrieval. What follows up ("and in winter?") goes where the one before went.
//	reformulate     says rewrite, reformulate or rephrase, and "question for a search", "without the conversation" or "standalone": the last
//	                question, behind the telling words of the one before where it follows up.
//	answer          quotes passages, "[1] Title" and lines with ">" before them, or has the line "Context: nothing was found.": one to three
//	                sentences of the passages that share most words with the question, each with its [number], and for a question about code
//	                a block of code; else that the documents do not say. Prompts that fetch or say words, see above and below, go first.
//	conversational  says "needs no search" or "there are no passages": a friendly line.
//
// # Documents
//
// A response_format of type json_schema, or a tool structured_response that the request forces by its tool_choice, is answered with a small
// document that satisfies the schema, once no other tool has to be called. It is filled with the prompt's words where names match ("the city
// is Rome", "20 lamps", "priority high"), its strings in quotes and numbers in their order, the rows that a tool found, and the answer that
// would be given otherwise (answer, text, summary, …); the rest are placeholders. Keywords that it does not know (not, if, patternProperties,
// and a few more) are passed over, so that a document may miss them; a schema that asks for the impossible is refused.
//
// # Embeddings
//
// POST /v1/embeddings hashes words into vectors of 256 dimensions, or as many as are asked for (1 to 4,096), of length 1. Texts with words in
// common are near each other; there is no more meaning in them.
//
// # For load and fault tests
//
//	say 300 words             300 numbered words: "word1 word2 …", one token each (at most 100,000)
//	say 300 words slowly      the same, 50 ms for each token
//	fetch twice flights …     two parallel tool calls with the same arguments
//
// The same request always gets the same answer, tool call ids included.
package offline
