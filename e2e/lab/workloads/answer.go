// Answers HTTP and the gRPC health protocol on one port, with nothing but the standard library, so that one program can
// stand behind probes of every kind. Built and put into an image by answerer.py.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

// serving is a gRPC message (not compressed, two bytes long): HealthCheckResponse with status SERVING.
var serving = []byte{0, 0, 0, 0, 2, 0x08, 0x01}

func page(answer http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(answer, "ok")
}

func check(answer http.ResponseWriter, request *http.Request) {
	io.Copy(io.Discard, request.Body)
	answer.Header().Set("Content-Type", "application/grpc")
	answer.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	answer.Write(serving)
}

func main() {
	port := flag.Int("port", 8080, "where to listen")
	flag.Parse()

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(0)
	}()

	http.HandleFunc("GET /", page)
	http.HandleFunc("POST /grpc.health.v1.Health/Check", check)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := http.Server{Addr: fmt.Sprintf(":%d", *port), Protocols: &protocols}
	log.Fatal(server.ListenAndServe())
}
