"""AlexNet behind FastAPI, as tutorials write it: python http_app.py torch|onnx thread|loop PORT

Requests are computed in threads of their own, or in the event loop, one after the other.
"""

import io
import sys
from typing import Any

from fastapi import FastAPI
import numpy as np
from pydantic import BaseModel
import torch
from torch_nets import AlexNet
import uvicorn


class Net(torch.nn.Module):
    """uint8 [batch, 28, 28, 1] to probabilities."""

    def __init__(self):
        super().__init__()
        self.net = AlexNet().to(memory_format=torch.channels_last)

    def forward(self, batch):
        return torch.softmax(self.net(batch.permute(0, 3, 1, 2).float() / 255), 1)


class Request(BaseModel):
    instances: list[list[list[list[int]]]]


def predictor(kind: str) -> Any:
    """Returns a function from uint8 [batch, 28, 28, 1] to float32 [batch, 10] in NumPy's memory."""
    if kind == 'torch':
        net = Net().eval()

        def predict(images):
            with torch.inference_mode():
                return net(torch.from_numpy(images)).numpy()

        return predict
    import onnxruntime

    file = io.BytesIO()
    images = torch.zeros([2, 28, 28, 1], dtype=torch.uint8)
    torch.onnx.export(Net().eval(), (images,), dynamic_shapes=[{0: torch.export.Dim('batch')}]).save(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    name = session.get_inputs()[0].name
    return lambda images: session.run(None, {name: images})[0]


def main(kind: str, place: str, port: int) -> None:
    app, predict = FastAPI(), predictor(kind)

    def answer(request: Request) -> dict:
        found = predict(np.array(request.instances, np.uint8))
        return {'predictions': [{'class': int(row.argmax()), 'probabilities': row.tolist()} for row in found]}

    async def answer_in_loop(request: Request) -> dict:
        return answer(request)

    app.post('/v1/models/alexnet:predict')(answer if place == 'thread' else answer_in_loop)

    uvicorn.run(app, port=port, log_level='warning')


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
