// Package openai is a door that speaks the protocol of OpenAI's Chat Completions API: POST /v1/chat/completions, GET /v1/models and GET
// /v1/models/{model}. An agent is a model, "agent:profile" is the agent with another of its model profiles, and a request is one turn.
//
// What the protocol cannot say is decided here, once (docs/reference/openai.md tells users):
//
//   - The conversation is in the request, so a turn has no session and no history of its own, unless the request names a session. Then only
//     what stands behind the last assistant or tool message is new; the session has the rest.
//   - Agents bring their own tools, prompts, models and settings. Tools of the client are refused; parameters that a plan fixes, and those
//     that are not known, are ignored.
//   - The content is the text of all steps in the order in which it was said, a blank line between steps, streamed or not. Of a structured
//     answer it is the document alone, which is known when the turn ends.
//   - Text that was sent cannot be taken back. After a reset the client gets nothing while the text repeats what it has; text that differs
//     ends the stream with an error that names the turn.
//   - A client that goes away leaves the turn alone, as everywhere, unless it asked for the opposite.
package openai
