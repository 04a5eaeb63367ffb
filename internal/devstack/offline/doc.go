// Package offline is a scripted model that needs no network and no key. It is an HTTP server with the OpenAI wire format (chat completions, streamed
// or not, and embeddings), so that the code for real providers runs.
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
// Without such an object it fills the required arguments from the message. To every other message it answers that it is a script, and how to
// configure a real model. It shows the results of tools: rows as a table, failures as text.
//
// # Other requests
//
// For an ask agent it names a branch, repeats the question, and quotes the sentences of the passages that share the most words with it. For a
// request with a JSON schema it returns a small document of that schema. Embeddings are hashes of words, so texts with common words are near
// each other. The same request always has the same answer, including the ids of tool calls.
package offline
