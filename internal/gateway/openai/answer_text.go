package openai

// maxText bounds the text of one answer, which is kept to compare it with what comes after a reset. What a turn says beyond it is in the
// turn's result alone.
const maxText = 8 << 20

// answerText collects the text of a turn's producers, separated by blank lines, through resets. The zero value is empty.
type answerText struct {
	firm bool // what was gathered has been sent: it cannot be taken back
	lost bool // what is true now differs from what was sent, or cannot be told from the events

	shown []byte // everything that was ever said, as far as it agrees
	stand int    // how much of it stands; the rest is void, until it is said again

	producer string           // who spoke last
	from     int              // where his text begins in shown
	marks    []mark           // where each of his events begins
	written  map[string]int64 // by producer: the last event with text
}

// mark is where an event's text begins.
type mark struct {
	index int64
	at    int
}

// add appends the text of an event and returns what of it is to be sent.
func (s *answerText) add(producer string, index int64, text string) string {
	if s.lost || text == "" {
		return ""
	}
	if len(s.marks) == 0 || s.producer != producer {
		gap := s.gap()
		s.producer, s.from, s.marks = producer, s.stand+len(gap), s.marks[:0]
		text = gap + text
	}
	if s.written == nil {
		s.written = map[string]int64{}
	}
	s.written[producer] = index
	s.marks = append(s.marks, mark{index, s.stand})
	if again := min(len(text), len(s.shown)-s.stand); again > 0 {
		if string(s.shown[s.stand:s.stand+again]) != text[:again] {
			s.lost = true // only what is firm is void and still there
			return ""
		}
		s.stand += again
		text = text[again:]
	}
	if text == "" {
		return ""
	}
	if len(s.shown)+len(text) > maxText {
		s.lost = true
		return ""
	}
	s.shown = append(s.shown, text...)
	s.stand = len(s.shown)
	return text
}

// gap is what stands between the text so far and that of another producer: a blank line.
func (s *answerText) gap() string {
	n := 0
	for n < 2 && n < s.stand && s.shown[s.stand-1-n] == '\n' {
		n++
	}
	if s.stand == 0 {
		return ""
	}
	return "\n\n"[n:]
}

// reset voids what a producer said from an event on.
func (s *answerText) reset(producer string, from int64) {
	if s.lost || s.written[producer] < from || s.written[producer] == 0 {
		return
	}
	if producer != s.producer || len(s.marks) == 0 || s.marks[0].at > s.stand {
		s.lost = true // others have spoken since
		return
	}
	for i, m := range s.marks {
		if m.index < from {
			continue
		}
		s.stand, s.marks = m.at, s.marks[:i]
		s.written[producer] = 0
		if i > 0 {
			s.written[producer] = s.marks[i-1].index
		}
		break
	}
	if !s.firm {
		s.shown = s.shown[:s.stand]
	}
}

// text is everything that stands.
func (s *answerText) text() string { return string(s.shown[:s.stand]) }

// last is the text of whoever spoke last.
func (s *answerText) last() string {
	if len(s.marks) == 0 {
		return ""
	}
	return string(s.shown[s.from:s.stand])
}

// settled reports whether everything that was sent stands.
func (s *answerText) settled() bool { return !s.lost && s.stand == len(s.shown) }
