// Package redact takes secrets and personal data out of texts before anybody reads them: log entries, traces, health reports, and what
// servers answer to tools. It knows three kinds of secret:
//
//   - Values it was given ([Masker]), however JSON, URLs, HTML or XML write their characters.
//   - Whatever stands behind a name such as password or api_key ([NameSecrecy]).
//   - What looks like a credential: bearer tokens, API keys by their prefixes, JWTs, private keys, passwords in URLs.
//
// [Redactor] looks for all of them, and for personal data by the [Finder] values it was given. The package imports nothing of the
// repository, so that every layer can use it.
package redact

// Placeholder stands where a secret was.
const Placeholder = "[redacted]"

const (
	// ShortestSecret is the length in bytes below which a secret is not looked for: texts contain such a word by chance.
	ShortestSecret = 6
	// MaxText is the most bytes of one text that [Redactor.Text] returns.
	MaxText = 16 << 10
)
