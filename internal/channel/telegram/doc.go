// Package telegram lets people talk to agents in Telegram. A message becomes an envelope for [agent.Inbox], and the events of its turn become
// messages.
//
//	update ──▶ lane of its chat ──▶ Submit ──▶ chat_turns ──▶ answer: Follow ──▶ sendMessage, editMessageText
//	             (in order)                       │
//	                                              └── claimed again when the process that shows it is gone
//
// # Guarantees
//
// A message is one turn, however often it arrives: the turn is named after the bot and the update. The answer that a chat is owed is stored before
// the update is confirmed. Until then polling does not confirm it, and the webhook answers 503, so that Telegram sends it again. One process
// at a time shows an answer, under a lease. If that process ends, another one reads the turn's events again and edits the same messages. No
// answer is lost; a message may be sent twice if a process ends before it has stored the message's number.
//
// The last edit shows the turn's output. Formatting is sent as entities beside the text, so that no text can break it.
//
// Only private chats are served: in a group everybody would act as the user that the group is linked to.
//
// # Why go-telegram/bot
//
// It has no dependencies, follows the Bot API closely (v1.19.0: 9.4), uses plain structs and contexts, and accepts another HTTP client. Ours
// bounds sizes and times, delays getUpdates until the updates that it confirms are handled, and keeps the token out of errors. Its webhook
// handler is not used: it reads bodies of any size, compares the secret in variable time, and answers 200 to updates that it drops.
package telegram
