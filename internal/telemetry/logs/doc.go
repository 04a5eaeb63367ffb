// Package logs is the process's log: zap, as JSON for machines or on a console for people, with nothing in it that may not be read by
// whoever reads logs (docs/logging.md). A [Redactor] goes over every text on its way into an entry, in the encoder, where no caller can
// forget it:
//
//   - Known secrets, those of the configuration: in whatever spelling, as far as the [Masker] knows it, and in base64 and hex.
//   - Fields whose names say that they are secret, whatever they hold.
//   - What looks like a credential: bearer tokens, API keys by their prefixes, JWTs, private keys, passwords in URLs, name=value pairs.
//   - Personal data, by the [Finder] values that it is given.
//
// An entry is bounded: text, fields, values and depth. Values that panic or that lead back to themselves cost their own field, no more.
//
// What the package does not know of it is given: it imports nothing of ours but agent, and internal/app wires it.
package logs
