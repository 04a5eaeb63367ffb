// Package chat is the door of web chats: POST /api/chat answers a message with text: the output, the last tool call and the error.
package chat
