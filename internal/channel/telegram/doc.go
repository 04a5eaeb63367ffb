// Package telegram lets people talk to agents in Telegram. A message becomes an envelope for [agent.Inbox], and the events of its turn become
// messages.
//
//	update ──▶ lane of its chat ──▶ Submit ──▶ chat_turns ──▶ answer: Follow ──▶ sendMessage, editMessageText
//	             (in order)                       │
//	                                              └── claimed again when the process that shows it is gone
//
// # Guarantees
//
// A message is one turn, however often it arrives: the turn's id is derived from the bot and the update. The channel records that a chat is owed
// an answer before it confirms the update. Until then polling does not confirm the update, and the webhook answers 503, so Telegram sends the
// update again. One process at a time shows an answer, under a lease. If that process ends, another one reads the turn's events again and edits
// the same messages. No answer is lost. A message may be sent twice if a process ends before it has stored the message's number.
//
// The last edit shows the turn's output. Formatting is sent as entities beside the text, so that no text can break it.
//
// Only private chats are served: in a group, everybody would act as the user that the group is linked to.
//
// # Why go-telegram/bot
//
// The library has no dependencies, follows the Bot API closely (v1.19.0: 9.4), uses plain structs and contexts, and accepts another HTTP client.
// The client here bounds sizes and times, keeps the token out of errors, and delays getUpdates until earlier updates are handled, because
// getUpdates confirms them. The library's webhook handler is not used: it reads bodies of any size, compares the secret in variable time, and
// answers 200 to updates that it drops.
package telegram
