package main

import "errors"

func setGates(string) error {
	return errors.New("this release is built without feature gates")
}
