// Package telegram lets people talk to agents in Telegram. It holds no agent logic: a message becomes an envelope for
// [agent.Inbox], and what the turn's events say becomes messages.
//
//	update ──▶ lane of its chat ──▶ Submit ──▶ chat_turns ──▶ answer: Follow ──▶ sendMessage, editMessageText
//	             (in order)                       │
//	                                              └── claimed again when the process that shows it is gone
//
// # What holds
//
// A message is one turn, however often it arrives: the turn is named after the bot and the update, and what a chat is owed is on record
// before the update counts as received. Polling does not confirm an update before that; the webhook answers 503 instead, and Telegram brings
// it again. The answer is shown by one process at a time, under a lease; should that end in the middle, another one reads the turn's
// events again and edits the same messages. A message may then be sent twice, when the process ended between sending it and writing its
// number down; an answer is never lost.
//
// The last edit is the turn's output. Formatting is sent as entities beside the text, so that no text can break it.
//
// Only private chats are served: in a group everybody would speak as the user that the group is linked to.
//
// # Why go-telegram/bot
//
// It has no dependencies, follows the Bot API closely (v1.19.0: 9.4), keeps to plain structs and contexts, and lets us bring the
// HTTP client: that is where sizes and times are bounded, where getUpdates waits until what it would confirm has been dealt with, and where the
// token is kept out of errors. Its own webhook handler is not used: it reads bodies of any size, compares the secret in variable
// time, and answers 200 to what it has dropped.
package telegram
