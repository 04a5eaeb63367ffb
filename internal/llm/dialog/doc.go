// Package dialog is what the projections of all providers share: conversations that every provider accepts, and tool calls and
// results in the forms that most of them use.
package dialog
