package logs

// naming is what a name says of its value.
type naming int

const (
	public  naming = iota
	private        // a secret, whatever it is
	plural         // secrets, unless it is a number: input_tokens is a count
)

// IsSecretName reports whether a name says that its value is a secret: password, api_key, X-Api-Key, OPENAI_API_KEY and so on.
func IsSecretName(name string) bool { return nameOf(name) != public }

const longestName = 48 // bytes of a name that are looked at, from its end

// nameOf judges a name by its end, however its words are put together: api_key, X-Api-Key, llm.apiKey, OPENAI_API_KEY.
func nameOf(name string) naming {
	var buffer [longestName]byte
	at := len(buffer)
	for i := len(name) - 1; i >= 0 && at > 0; i-- {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
			fallthrough
		case 'a' <= c && c <= 'z', isDigit(c):
			at--
			buffer[at] = c
		}
	}
	return ending(buffer[at:])
}

func ending(name []byte) naming {
	if len(name) < 3 {
		return public
	}
	switch name[len(name)-1] {
	case 'd':
		return either(private, name, "password", "passwd", "pwd")
	case 'e':
		if n := either(private, name, "passphrase", "cookie", "signature"); n != public {
			return n
		}
		return without(name, "value", "verbose")
	case 'g':
		if string(name) == "sig" {
			return private
		}
		return either(private, name, "connectionstring")
	case 'h':
		return without(name, "hash")
	case 'l':
		return either(private, name, "credential")
	case 'n':
		return either(private, name, "token", "authorization", "dsn")
	case 'r':
		return without(name, "error", "header")
	case 's':
		if n := either(plural, name, "tokens", "secrets", "passwords", "cookies", "credentials", "apikeys", "privatekeys"); n != public {
			return n
		}
		return without(name, "causes")
	case 't':
		return either(private, name, "secret", "jwt")
	case 'a':
		return either(private, name, "keydata")
	case 'y':
		return either(private, name, "apikey", "privatekey", "accesskey", "secretkey", "operatorkey", "signingkey", "encryptionkey", "masterkey",
			"sharedkey", "accountkey", "authkey")
	default:
		return public
	}
}

func either(n naming, name []byte, words ...string) naming {
	for _, w := range words {
		if ends(name, w) {
			return n
		}
	}
	return public
}

// without judges a name without the word that it ends in: zap itself adds Verbose, Causes and Error to the name of an error.
func without(name []byte, words ...string) naming {
	for _, w := range words {
		if ends(name, w) {
			return ending(name[:len(name)-len(w)])
		}
	}
	return public
}

func ends(name []byte, word string) bool {
	return len(name) >= len(word) && string(name[len(name)-len(word):]) == word
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isLetter(c) || isDigit(c) }

// isToken is what keys and base64url are made of.
func isToken(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }
