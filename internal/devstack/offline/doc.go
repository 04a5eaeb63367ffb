// Package offline is the model that needs no network: a small deterministic intent parser behind a real HTTP server that speaks the
// OpenAI chat-completions wire format, so that the code that talks to real providers runs (DESIGN §9). It has no general knowledge and
// says so.
//
// # What it understands
//
// Prompts that fetch rows or work on them become calls of execute_pipeline, when the request offers that tool:
//
//	fetch flights from NYC to LAX, sort by price, show top 3
//	cheapest 5 flights from SFO to JFK, nonstop, only id and price
//	fetch https://api.example.com/items, where price < 20 and name contains foo, sort by rating descending, top 10
//	average price and count by airline for flights from NYC to LAX, then those over $300, highest first
//	fetch bookings, extract area code from phone, count per area code
//	now filter those under $500            (no source: goes on with the rows the conversation has)
//	join those with airlines on airline code
//	fetch flights, sort by price, top 3    (no route: NYC to LAX, and the answer says so)
//
// In a few words the grammar is: clauses in any order, with or without commas; words it does not know are passed over, and the answer
// names them. testdata lists two hundred sentences and what they become.
//
//	source     URL [with params NAME=VALUE, …] | fetch HOST/PATH | post to URL with NAME=VALUE, …
//	           [fetch N] [flights] [from] PLACE to PLACE [as csv|ndjson], a code of three letters or one of a few cities
//	           fetch airlines | fetch bookings | post a booking with NAME=VALUE, …     (all of the sample API)
//	           RESULT, see below, or cas://… or artifact://…; else the latest result
//	filter     where TEST ((and|or) TEST)… | TEST | under|over|at most|at least|between … $N | nonstop | at most N stops
//	           with a FIELD | without FIELD
//	TEST       [not] (TESTS) | [not] FIELD (< <= > >= = != | is [not] | under | over | before | after | at most | at least | between A and B |
//	           one of A, B or C | in (A, B) | contains | matches | starts with | ends with | exists | is missing) VALUE
//	sort       (sort|sorted|order|ordered) by FIELD [asc…|desc…] [(and|then) by FIELD …] | cheapest | most expensive | fastest | slowest |
//	           earliest | latest | highest|lowest FIELD
//	top        top N | first N | cheapest N | limit N | show N | top N [FIELD] by [AGGREGATE] FIELD, the largest first
//	select     only|just|show FIELD, FIELD as NAME and FIELD | rename FIELD to NAME | drop FIELD
//	groupby    AGGREGATE [and AGGREGATE] by|per|for each FIELD and FIELD | group by FIELD [and AGGREGATE]
//	AGGREGATE  count | number of flights | (average|sum|total|min|max|lowest|highest) [of] FIELD and FIELD; without groups, of all rows
//	join       [left] join [ROWS] with ROWS [on FIELD [= FIELD]]; ROWS is any source
//	jq         jq 'PROGRAM', or without quotes to the line's end
//	extract    extract PATTERN from FIELD | extract area code|email|domain|number|year|first name|last name from FIELD
//	dates      parse FIELD [as FORMAT]: %d/%m/%Y, dd/mm/yyyy, anything in quotes; without one, ISO 8601
//	RESULT     those | the previous result | the result before that | the second result | the result of NODE | NODE's result
//
// The steps of what the source gives are filter, sort, top, select, whatever the order of the words. A groupby, join, jq, extract or date
// makes other rows, and what is said behind it is about these; a filter behind a groupby that is not about an aggregate is still about
// the rows before it. "then" behind a top begins anew as well. Where fields are known, from the sample API or from earlier results, words
// find them: "cost" is price, "airline code" airline_code, "price" behind an average avg_price.
//
// Rows to join that have to be fetched are, by a call of their own before. When a call fails because a field does not exist, and the error
// lists one that must be meant, the call is made again with that, once; every other error is told in words.
//
// The argument session_id is taken from a line "Session: <id>" in a system message, else it is "offline". Earlier results are known from
// the transcript and from the block that the runtime puts at the end of the user's message, which is no part of what the user said:
//
//	<session_context>
//	{"last_result":{"ref","row_count","fields":[{"name","type"}],…},"earlier_results":[…],"previous_results":[{"node_id","result_ref","preview"}]}
//	</session_context>
//
// Answers about tool results are Markdown.
//
// # Other tools
//
// When the request offers delegate_to_agent or write_todos, a prompt that begins with these words calls it, and the answer is what the
// other agent said, or the list:
//
//	ask helper: fetch flights from NYC to LAX      (also: ask NAME to …, delegate to NAME …)
//	plan: buy tea, boil water, drink               (at most 100 tasks, between commas, semicolons or lines)
//
// What shall stay when the turn is over changes the workflow, by patch_workflow; where that is not offered, the answer says so. It is a
// notification (email, slack, sms, webhook) for a condition, or behind a node; there are no schedules:
//
//	add email notification whenever price drops below $500
//	always send an email to ops@example.com if stops exceeds 2
//	add an email to ops@example.com after process_data
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
