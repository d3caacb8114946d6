package main

import (
	"k8s.io/api/core/v1"
	"QOS_PACKAGE"
)

func class(pod *v1.Pod) string {
	return string(qos.GetPodQOS(pod))
}
