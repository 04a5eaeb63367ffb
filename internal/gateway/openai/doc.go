// Package openai is a door that speaks the protocol of OpenAI's Chat Completions API: POST /v1/chat/completions, GET /v1/models and GET
// /v1/models/{model}. An agent is a model, "agent:profile" is the agent with another of its model profiles, and a request is one turn.
//
// The protocol leaves open how a turn maps to it. These are the rules (docs/reference/openai.md has them for users):
//
//   - The conversation is in the request, so a turn has no session and no history, unless the request names a session. Then only the messages after
//     the last assistant or tool message are new; the session has the others.
//   - An agent has its own tools, prompts, models and settings. The tools of a request run at the client. Parameters that a plan fixes, and unknown
//     ones, are ignored.
//   - The content is the text of all steps in order, with a blank line between steps, whether it is streamed or not. The content of a structured
//     answer is the document alone, which is known when the turn ends.
//   - Text that was sent cannot be removed. After a reset, the client gets nothing while the new text repeats what it has. Text that differs ends the
//     stream with an error that names the turn.
//   - If the client disconnects, the turn goes on, unless the request asks to cancel it.
package openai
