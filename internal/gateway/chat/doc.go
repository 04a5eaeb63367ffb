// Package chat is the door of web chats: POST /api/chat answers a message with text, in the shape of seed 001's AgentResponse.
package chat
