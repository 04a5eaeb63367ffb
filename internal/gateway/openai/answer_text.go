package openai

// maxText is how many bytes of an answer's text are kept to compare them with the text after a reset. Longer text is in the turn's result only.
const maxText = 8 << 20

// answerText collects the text of a turn's producers, with blank lines between them, and applies resets. The zero value is empty.
type answerText struct {
	isSent      bool // whether the collected text is sent to the client, so that it cannot be removed
	isUncertain bool // whether the right text differs from the text that was sent, or is not known from the events

	collected []byte // the text; if isSent, followed by text that a reset has removed but the client has
	length    int    // of the text, without the removed part

	producer    string           // of the newest event
	start       int              // where the text of producer begins
	tokens      []tokenStart     // of producer
	lastIndexes map[string]int64 // by producer: the index of its last event with text, 0 if a reset has removed all
}

// tokenStart is where the text of an event begins.
type tokenStart struct {
	eventIndex int64
	offset     int
}

// add appends the text of an event and returns the part of it that the client does not have.
func (s *answerText) add(producer string, index int64, text string) string {
	if s.isUncertain || text == "" {
		return ""
	}
	if len(s.tokens) == 0 || s.producer != producer {
		separator := s.separator()
		s.producer, s.start, s.tokens = producer, s.length+len(separator), s.tokens[:0]
		text = separator + text
	}
	if s.lastIndexes == nil {
		s.lastIndexes = map[string]int64{}
	}
	s.lastIndexes[producer] = index
	s.tokens = append(s.tokens, tokenStart{index, s.length})
	if repeated := min(len(text), len(s.collected)-s.length); repeated > 0 {
		if string(s.collected[s.length:s.length+repeated]) != text[:repeated] {
			s.isUncertain = true // the client has other text here
			return ""
		}
		s.length += repeated
		text = text[repeated:]
	}
	if text == "" {
		return ""
	}
	if len(s.collected)+len(text) > maxText {
		s.isUncertain = true
		return ""
	}
	s.collected = append(s.collected, text...)
	s.length = len(s.collected)
	return text
}

// separator returns the line feeds that make a blank line between the text and that of another producer.
func (s *answerText) separator() string {
	if s.length == 0 {
		return ""
	}
	n := 0
	for n < 2 && n < s.length && s.collected[s.length-1-n] == '\n' {
		n++
	}
	return "\n\n"[n:]
}

// reset removes the text of a producer's events from an index on.
func (s *answerText) reset(producer string, from int64) {
	if s.isUncertain || s.lastIndexes[producer] < from || s.lastIndexes[producer] == 0 {
		return
	}
	if producer != s.producer || len(s.tokens) == 0 || s.tokens[0].offset > s.length {
		s.isUncertain = true // another producer has written after this one
		return
	}
	for i, t := range s.tokens {
		if t.eventIndex < from {
			continue
		}
		s.length, s.tokens = t.offset, s.tokens[:i]
		s.lastIndexes[producer] = 0
		if i > 0 {
			s.lastIndexes[producer] = s.tokens[i-1].eventIndex
		}
		break
	}
	if !s.isSent {
		s.collected = s.collected[:s.length]
	}
}

// text returns the text of all producers.
func (s *answerText) text() string { return string(s.collected[:s.length]) }

// lastText returns the text of the newest producer.
func (s *answerText) lastText() string {
	if len(s.tokens) == 0 {
		return ""
	}
	return string(s.collected[s.start:s.length])
}

// isComplete reports whether the text that was sent is the right text.
func (s *answerText) isComplete() bool { return !s.isUncertain && s.length == len(s.collected) }
