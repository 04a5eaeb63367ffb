package ws

// Decode returns the id and the type of a frame, or the error of decode.
func Decode(data []byte) (id, kind string, err error) {
	r, err := decode(data)
	return r.ID, r.Type, err
}
