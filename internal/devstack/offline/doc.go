// Package offline is the model that needs no network and no key: a script behind a real HTTP server that speaks the OpenAI wire format
// (chat completions, streamed or not, and embeddings), so that the code that talks to real providers runs.
//
// # What it answers
//
// It knows the prompts of the README, of docs/ and of the tests, see [prompts] and [clauses]:
//
//	fetch flights from NYC to LAX, sort by price, show top 3      execute_pipeline
//	now filter those under $500                                   execute_pipeline, on the rows that the session has
//	add email notification whenever price drops below $500        patch_workflow
//	ask analyst: fetch flights from NYC to LAX                    delegate_to_agent
//	say 300 words, say 300 words slowly                           text, one token a word; slowly: 50 ms each
//
// A message that names a tool of the agent calls it, with the JSON object in the message as its arguments:
//
//	execute_pipeline {"session_id": "s", "pipeline": [{"step": "http_request", "url": "https://api.example.com/items"}]}
//
// Without such an object the arguments that the tool requires are filled from the message. To everything else the model answers that it
// is a script and how to configure a real one. When tools have answered, it shows what they said: rows as a table, failures in words.
//
// # Other requests
//
// For an ask agent it names a branch, repeats the question, and quotes the sentences of the passages that share most words with it. A
// request with a JSON schema gets a small document of that shape. Embeddings hash words, so texts with words in common are near each
// other. The same request always gets the same answer, ids of tool calls included.
package offline
