// Package offline is a scripted model that needs no network and no key. It is an HTTP server with the OpenAI wire format (chat completions, streamed
// or not, and embeddings), so that the code for real providers runs.
//
// # What it answers
//
// It answers the prompts in the README, in docs/ and in tests, see [prompts] and [clauses]:
//
//	fetch flights from NYC to LAX, sort by price, show top 3      execute_pipeline
//	now filter those under $500                                   execute_pipeline, on the rows that the session has
//	add email notification whenever price drops below $500        patch_workflow
//	ask analyst: fetch flights from NYC to LAX                    delegate_to_agent
//	say 300 words, say 300 words slowly                           text with one token per word; slowly: 50 ms per token
//
// If a message names a tool of the agent, the model calls it, with the JSON object in the message as its arguments:
//
//	execute_pipeline {"session_id": "s", "pipeline": [{"step": "http_request", "url": "https://api.example.com/items"}]}
//
// Without a JSON object it fills the required arguments with the message. It answers any other message with a text that says how to configure a real
// model. It shows the results of tools: rows as a table, failures as text.
//
// # Other requests
//
// For an ask agent it names a branch, repeats the question, and quotes the sentences of passages that have the most words in common with it. For a
// request with a JSON schema it returns a small document of that schema. Embeddings are hashes of words, so texts with common words are near each
// other. The same request always has the same answer, including the ids of tool calls.
package offline
