package redact

import "slices"

// Secrecy says what a name tells about its value.
type Secrecy int

// The degrees of [Secrecy].
const (
	Public             Secrecy = iota
	Secret                     // whatever the value is
	SecretUnlessNumber         // input_tokens is a count
)

// IsSecretName reports whether a name says that its value is a secret: password, api_key, X-Api-Key, OPENAI_API_KEY and so on.
func IsSecretName(name string) bool { return NameSecrecy(name) != Public }

const maxNameLength = 48 // bytes of a name, from its end, that are looked at

// NameSecrecy judges a name by its end, however its words are joined: api_key, X-Api-Key, llm.apiKey, OPENAI_API_KEY.
func NameSecrecy(name string) Secrecy {
	var buffer [maxNameLength]byte
	start := len(buffer)
	for i := len(name) - 1; i >= 0 && start > 0; i-- {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
			fallthrough
		case 'a' <= c && c <= 'z', isDigit(c):
			start--
			buffer[start] = c
		}
	}
	return secrecyByEnding(buffer[start:])
}

// secrecyByEnding switches on the last letter first, because it runs for every name of every log entry.
func secrecyByEnding(name []byte) Secrecy {
	if len(name) < 3 {
		return Public
	}
	switch name[len(name)-1] {
	case 'a':
		return secretIfEnding(name, "keydata")
	case 'd':
		return secretIfEnding(name, "password", "passwd", "pwd")
	case 'e':
		if hasAnySuffix(name, "passphrase", "cookie", "signature") {
			return Secret
		}
		return secrecyWithout(name, "value", "verbose")
	case 'g':
		if string(name) == "sig" {
			return Secret
		}
		return secretIfEnding(name, "connectionstring")
	case 'h':
		return secrecyWithout(name, "hash")
	case 'l':
		return secretIfEnding(name, "credential")
	case 'n':
		return secretIfEnding(name, "token", "authorization", "dsn")
	case 'r':
		return secrecyWithout(name, "error", "header")
	case 's':
		if hasAnySuffix(name, "tokens", "secrets", "passwords", "cookies", "credentials", "apikeys", "privatekeys") {
			return SecretUnlessNumber
		}
		return secrecyWithout(name, "causes")
	case 't':
		return secretIfEnding(name, "secret", "jwt")
	case 'y':
		return secretIfEnding(name, "apikey", "privatekey", "accesskey", "secretkey", "operatorkey", "signingkey", "encryptionkey", "masterkey",
			"sharedkey", "accountkey", "authkey")
	default:
		return Public
	}
}

func secretIfEnding(name []byte, words ...string) Secrecy {
	if hasAnySuffix(name, words...) {
		return Secret
	}
	return Public
}

// secrecyWithout judges a name without its last word: zap appends Verbose, Causes and Error to the name of an error.
func secrecyWithout(name []byte, words ...string) Secrecy {
	for _, w := range words {
		if hasSuffix(name, w) {
			return secrecyByEnding(name[:len(name)-len(w)])
		}
	}
	return Public
}

func hasAnySuffix(name []byte, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return hasSuffix(name, w) })
}

func hasSuffix(name []byte, word string) bool {
	return len(name) >= len(word) && string(name[len(name)-len(word):]) == word
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isLetter(c) || isDigit(c) }

// isTokenChar reports whether c occurs in keys and base64url.
func isTokenChar(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }
