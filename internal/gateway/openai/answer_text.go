package openai

// maxText bounds the text of one answer, which is kept to compare it with what comes after a reset. What a turn says beyond it is in the
// turn's result alone.
const maxText = 8 << 20

// answerText collects the text of a turn's producers, separated by blank lines, through resets. The zero value is empty.
type answerText struct {
	sent      bool // what is collected has been sent: it cannot be taken back
	uncertain bool // the right text differs from what was sent, or cannot be told from the events

	collected []byte // the text, and behind it what was sent and is void, until it is said again
	valid     int    // how much of collected is the text

	producer string           // the one of the newest event
	from     int              // where its text begins in collected
	marks    []mark           // where each of its events begins
	written  map[string]int64 // by producer: the last event with text
}

// mark is where an event's text begins.
type mark struct {
	index int64
	at    int
}

// add appends the text of an event and returns what of it is to be sent.
func (s *answerText) add(producer string, index int64, text string) string {
	if s.uncertain || text == "" {
		return ""
	}
	if len(s.marks) == 0 || s.producer != producer {
		gap := s.gap()
		s.producer, s.from, s.marks = producer, s.valid+len(gap), s.marks[:0]
		text = gap + text
	}
	if s.written == nil {
		s.written = map[string]int64{}
	}
	s.written[producer] = index
	s.marks = append(s.marks, mark{index, s.valid})
	if again := min(len(text), len(s.collected)-s.valid); again > 0 {
		if string(s.collected[s.valid:s.valid+again]) != text[:again] {
			s.uncertain = true // only text that was sent is void and still there
			return ""
		}
		s.valid += again
		text = text[again:]
	}
	if text == "" {
		return ""
	}
	if len(s.collected)+len(text) > maxText {
		s.uncertain = true
		return ""
	}
	s.collected = append(s.collected, text...)
	s.valid = len(s.collected)
	return text
}

// gap returns what separates the text so far from that of another producer: a blank line.
func (s *answerText) gap() string {
	n := 0
	for n < 2 && n < s.valid && s.collected[s.valid-1-n] == '\n' {
		n++
	}
	if s.valid == 0 {
		return ""
	}
	return "\n\n"[n:]
}

// reset voids what a producer wrote from an event on.
func (s *answerText) reset(producer string, from int64) {
	if s.uncertain || s.written[producer] < from || s.written[producer] == 0 {
		return
	}
	if producer != s.producer || len(s.marks) == 0 || s.marks[0].at > s.valid {
		s.uncertain = true // other producers have written since
		return
	}
	for i, m := range s.marks {
		if m.index < from {
			continue
		}
		s.valid, s.marks = m.at, s.marks[:i]
		s.written[producer] = 0
		if i > 0 {
			s.written[producer] = s.marks[i-1].index
		}
		break
	}
	if !s.sent {
		s.collected = s.collected[:s.valid]
	}
}

// text returns the text.
func (s *answerText) text() string { return string(s.collected[:s.valid]) }

// last returns the text of the newest producer.
func (s *answerText) last() string {
	if len(s.marks) == 0 {
		return ""
	}
	return string(s.collected[s.from:s.valid])
}

// isValid reports whether the text is everything that was sent.
func (s *answerText) isValid() bool { return !s.uncertain && s.valid == len(s.collected) }
