package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

const (
	pdfForms  = 5   // forms within forms
	pdfStates = 256 // saved graphics states
)

// affine is a PDF matrix [a b c d e f].
type affine [6]float64

func (m affine) times(n affine) affine {
	return affine{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func identity() affine { return affine{1, 0, 0, 1, 0, 0} }

// textState is the part of the graphics state that says where text stands (ISO 32000-1, 9.3).
type textState struct {
	page, text, line affine
	font             *pdfFont
	size, leading    float64
	charGap, wordGap float64
	stretch          float64
}

// pdfWriter writes down what a page shows, in the order in which it shows it. A page says where glyphs stand, not what a word or a line
// is: a step down makes a new line, a wide one a blank line before it, a step to the right of more than a sliver a space.
type pdfWriter struct {
	file  *pdfFile
	out   strings.Builder
	full  bool
	state textState
	saved []textState
	shown bool
	penX  float64 // where the last glyph ended
	penY  float64
}

func newPDFWriter(f *pdfFile) *pdfWriter {
	return &pdfWriter{file: f, state: textState{page: identity(), text: identity(), line: identity(), stretch: 1}}
}

// contents interprets a content stream, or several that make one.
func (w *pdfWriter) contents(v, resources pdf.Value, depth int) error {
	switch v.Kind() { //nolint:exhaustive // the rest shows nothing
	case pdf.Array:
		for i := range v.Len() {
			if err := w.stream(v.Index(i), resources, depth); err != nil {
				return err
			}
		}
	case pdf.Stream:
		return w.stream(v, resources, depth)
	}
	return nil
}

func (w *pdfWriter) stream(v, resources pdf.Value, depth int) error {
	if v.Kind() != pdf.Stream {
		return nil
	}
	data, err := w.file.unpacked(v)
	if err != nil {
		return err
	}
	interpret(data, func(op string, args []operand) bool {
		switch {
		case op == "Do" && len(args) > 0:
			err = w.form(resources.Key("XObject").Key(args[0].text), resources, depth+1)
		case op == "Tf" && len(args) > 1:
			w.state.size = args[1].number
			w.state.font, err = w.file.font(resources.Key("Font").Key(args[0].text))
		default:
			w.operate(op, args)
		}
		return err == nil && !w.full && w.file.ctx.Err() == nil
	})
	return err
}

// form shows a form: a content stream that pages share.
func (w *pdfWriter) form(v, resources pdf.Value, depth int) error {
	if depth > pdfForms || v.Key("Subtype").Name() != "Form" {
		return nil
	}
	if own := v.Key("Resources"); !own.IsNull() {
		resources = own
	}
	before := w.state
	if m := v.Key("Matrix"); m.Len() == 6 {
		var matrix affine
		for i := range matrix {
			matrix[i] = m.Index(i).Float64()
		}
		w.state.page = matrix.times(w.state.page)
	}
	err := w.stream(v, resources, depth)
	w.state = before
	return err
}

func matrixOf(args []operand) (m affine) {
	for i := range m {
		m[i] = args[i].number
	}
	return m
}

// operate executes an operator. One with too few operands is passed over, as viewers do.
func (w *pdfWriter) operate(op string, args []operand) {
	need := map[string]int{"cm": 6, "Tm": 6, "Td": 2, "TD": 2, "TL": 1, "Tc": 1, "Tw": 1, "Tz": 1, "Tj": 1, "TJ": 1, "'": 1, `"`: 3}[op]
	if len(args) < need {
		return
	}
	args = args[len(args)-need:]
	s := &w.state
	switch op {
	case "q":
		if len(w.saved) < pdfStates {
			w.saved = append(w.saved, *s)
		}
	case "Q":
		if n := len(w.saved); n > 0 {
			*s, w.saved = w.saved[n-1], w.saved[:n-1]
		}
	case "cm":
		s.page = matrixOf(args).times(s.page)
	case "BT":
		s.text, s.line = identity(), identity()
	case "Tm":
		s.line = matrixOf(args)
		s.text = s.line
	case "TD":
		s.leading = -args[1].number
		w.move(args[0].number, args[1].number)
	case "Td":
		w.move(args[0].number, args[1].number)
	case "T*":
		w.move(0, -s.leading)
	case "TL":
		s.leading = args[0].number
	case "Tc":
		s.charGap = args[0].number
	case "Tw":
		s.wordGap = args[0].number
	case "Tz":
		s.stretch = args[0].number / 100
	case "Tj":
		w.show(args[0].text)
	case "'":
		w.move(0, -s.leading)
		w.show(args[0].text)
	case `"`:
		s.wordGap, s.charGap = args[0].number, args[1].number
		w.move(0, -s.leading)
		w.show(args[2].text)
	case "TJ":
		for _, part := range args[0].items {
			if part.kind == operandString {
				w.show(part.text)
			} else {
				w.forward(-part.number / 1000 * s.size * s.stretch)
			}
		}
	}
}

func (w *pdfWriter) move(x, y float64) {
	w.state.line = affine{1, 0, 0, 1, x, y}.times(w.state.line)
	w.state.text = w.state.line
}

func (w *pdfWriter) forward(x float64) {
	w.state.text = affine{1, 0, 0, 1, x, 0}.times(w.state.text)
}

// show writes a string and moves behind it.
func (w *pdfWriter) show(raw string) {
	s := &w.state
	text, width, glyphs, blanks := s.font.decode(raw)
	if text == "" {
		return
	}
	at := s.text.times(s.page)
	size := math.Max(math.Abs(s.size)*math.Hypot(at[2], at[3]), 1e-3)
	if w.shown && !strings.HasPrefix(text, " ") {
		switch down := math.Abs(at[5] - w.penY); {
		case down > 1.9*size:
			w.out.WriteString("\n\n")
		case down > 0.5*size:
			w.out.WriteByte('\n')
		case at[4]-w.penX > 0.15*size, w.penX-at[4] > 2*size:
			w.space()
		}
	}
	if w.out.Len()+len(text) > w.file.text {
		w.full = true
		return
	}
	w.out.WriteString(text)
	w.shown = true
	w.forward((width/1000*s.size + float64(glyphs)*s.charGap + float64(blanks)*s.wordGap) * s.stretch)
	at = s.text.times(s.page)
	w.penX, w.penY = at[4], at[5]
}

func (w *pdfWriter) space() {
	if !strings.HasSuffix(w.out.String(), " ") {
		w.out.WriteByte(' ')
	}
}
