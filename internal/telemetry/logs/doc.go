// Package logs makes the logger of the process. It writes JSON for machines or a console format for people, without secrets and personal data
// (docs/guides/logging.md). The encoder redacts every text of an entry, so that no caller has to.
//
// The text, fields, values and depth of an entry are bounded. If a value panics or contains itself, only its field is affected.
package logs
