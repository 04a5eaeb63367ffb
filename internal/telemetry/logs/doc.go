// Package logs is the process's log: zap, as JSON for machines or on a console for people, without secrets and personal data
// (docs/guides/logging.md). The encoder passes every text of an entry through a [redact.Redactor], so that no caller can forget it.
//
// An entry is bounded in text, fields, values and depth. A value that panics, or that contains itself, costs only its own field.
package logs
