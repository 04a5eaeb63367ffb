package pii

// finder finds the values of one type. Its answers do not depend on how a text is cut into chunks, so that [Stream] equals [Rule.Apply]: it
// looks at most 4 bytes back from where it begins, and answers only what no further text can change.
type finder interface {
	// find returns the first value of text that begins at from or later. Without one, hold is the offset up to which the text has no value
	// whatever follows, len(text) if nothing follows. more reports that text may follow.
	find(text string, from int, more bool) (v value, hold int, ok bool)
}

// value is text[start:end], in bytes.
type value struct {
	start, end int
	rest       overflow // not nil: the value has reached its type's bound at end and goes on after it
}

// overflow is the part of a value beyond the bound.
type overflow interface {
	// take returns how many bytes of text belong to the value; done says that it ends there. Without more it always ends.
	take(text string, more bool) (n int, done bool)
}

// windowFinder finds short values that begin at the start of a word.
type windowFinder struct {
	first func(c byte) bool
	// match looks for a value at text[i:]. cut says that text beyond its end may change the answer.
	match func(text string, i int) (end int, ok, cut bool)
}

func (f windowFinder) find(text string, from int, more bool) (v value, hold int, ok bool) {
	for i := from; i < len(text); i++ {
		if !f.first(text[i]) || isPrecededBy(text, i, isWord) {
			continue
		}
		end, ok, cut := f.match(text, i)
		if cut && more {
			return value{}, i, false
		}
		if ok {
			return value{start: i, end: end}, 0, true
		}
	}
	return value{}, len(text), false
}

// isPrecededBy reports whether the byte before text[i] is of a class.
func isPrecededBy(text string, i int, class func(byte) bool) bool { return i > 0 && class(text[i-1]) }

// isClassAt reports whether text[i] exists and is of a class.
func isClassAt(text string, i int, class func(byte) bool) bool {
	return i < len(text) && class(text[i])
}

// Letters and digits are those of ASCII: others are separators, as in LangChain, so that values are found right beside them.

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isLetter(c) || isDigit(c) }
func isWord(c byte) bool   { return isAlnum(c) || c == '_' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
