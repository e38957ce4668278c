"""Imports frameworks and uses them; one line of JSON. Runs in the environments, knows nothing of ours."""

import json
import os
import sys
import tempfile
from typing import Any

# The hub is asked for nothing: what is trained has random weights. Before the imports, as they read these.
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
os.environ["HF_HOME"] = FOLDER = tempfile.mkdtemp()


def torch() -> None:
    import torch

    a = torch.randn(8, 8, requires_grad=True)
    (a @ a).sum().backward()
    convolved = torch.nn.Conv2d(1, 2, 3)(torch.randn(1, 1, 8, 8))
    torch.from_numpy(convolved.detach().numpy())


def torchvision() -> None:
    import torch
    import torchvision.models
    import torchvision.transforms

    torchvision.ops.nms(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0]), 0.5)


def torchaudio() -> None:
    import torchaudio  # noqa: F401


def mindspore() -> None:
    import mindspore
    import mindspore.dataset
    import mindspore.nn
    import numpy

    ones = mindspore.Tensor(numpy.ones((2, 2)), mindspore.float32)
    mindspore.ops.add(ones, ones).asnumpy()
    mindspore.run_check()
    list(mindspore.dataset.NumpySlicesDataset(numpy.arange(4)).create_dict_iterator())


def paddle() -> None:
    import paddle

    a = paddle.rand([4, 4])
    a.stop_gradient = False
    (a @ a).sum().backward()
    paddle.nn.Conv2D(1, 2, 3)(paddle.rand([1, 1, 8, 8])).numpy()


def tensorflow() -> None:
    import tensorflow

    (tensorflow.ones((2, 2)) @ tensorflow.ones((2, 2))).numpy()


def transformers() -> None:
    # The names of a trainer's first lines: the package itself is lazy, so that its import says nothing.
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    model = LlamaForCausalLM(LlamaConfig(**TINY))
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 2
    Trainer(model, TrainingArguments(**_once("transformers")), train_dataset=rows).train()


def accelerate() -> None:
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(2, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    accelerator.backward(model(torch.ones(1, 2)).sum())
    optimizer.step()


def peft() -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    model = get_peft_model(LlamaForCausalLM(LlamaConfig(**TINY)), LoraConfig(task_type="CAUSAL_LM"))
    model.save_pretrained(f"{FOLDER}/peft")


def trl() -> None:
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    model = LlamaForCausalLM(LlamaConfig(**TINY))
    SFTTrainer(
        model=model,
        args=SFTConfig(**_once("trl"), max_length=8),
        train_dataset=Dataset.from_dict({"text": ["a b", "b a"]}),
        processing_class=_tokenizer(),
    ).train()


def datasets() -> None:
    from datasets import Dataset, load_dataset

    rows = Dataset.from_dict({"a": [1, 2, 3]}).map(lambda row: {"b": row["a"] + 1})
    rows.to_parquet(f"{FOLDER}/rows.parquet")
    assert load_dataset("parquet", data_files=f"{FOLDER}/rows.parquet", split="train")["b"][0] == 2


def lightning() -> None:
    import lightning

    _fit(lightning)


def pytorch_lightning() -> None:
    import pytorch_lightning

    _fit(pytorch_lightning)


def sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel

    _tokenizer().save_pretrained(f"{FOLDER}/bert")
    BertModel(BertConfig(**TINY)).save_pretrained(f"{FOLDER}/bert")
    words = Transformer(f"{FOLDER}/bert")
    SentenceTransformer(modules=[words, Pooling(16)], device="cpu").encode(["a b"])


def diffusers() -> None:
    import torch
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",)}
    model = UNet2DModel(8, 1, 1, block_out_channels=(8,), layers_per_block=1, norm_num_groups=2, **blocks)
    model(torch.randn(1, 1, 8, 8), 1).sample.sum().backward()
    DDPMPipeline(model, DDPMScheduler(num_train_timesteps=1))(num_inference_steps=1)


TINY = {
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def _once(name: str) -> dict[str, Any]:
    """Arguments of a trainer that takes one step and tells nobody."""
    quiet = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    return {"output_dir": f"{FOLDER}/{name}", "max_steps": 1, **quiet}


def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    listed = dict(zip([*special.values(), "a", "b"], range(5)))
    words = Tokenizer(WordLevel(listed, unk_token=special["unk_token"]))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, **special)


def _fit(package: Any) -> None:
    """One step of the trainer of either name of Lightning."""
    import torch

    # By `type`, as the class that it inherits from is known only now.
    methods = {
        "training_step": lambda module, batch, _index: module.layer(batch[0]).sum(),
        "configure_optimizers": lambda module: torch.optim.SGD(module.parameters(), 0.1),
    }
    module = type("Line", (package.LightningModule,), methods)()
    module.layer = torch.nn.Linear(2, 1)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2, 2)))
    silent = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = package.Trainer(max_steps=1, accelerator="cpu", enable_checkpointing=False, **silent)
    trainer.fit(module, batches)


# In the order in which a trainer's own lines take them.
HUGGING = (transformers, accelerate, peft, trl, datasets)
OTHERS = (lightning, pytorch_lightning, sentence_transformers, diffusers)
ALONE = (torch, torchvision, torchaudio, mindspore, paddle, tensorflow)
USES = {use.__name__: use for use in (*ALONE, *HUGGING, *OTHERS)}
out = {}
for name in sys.argv[1:]:
    try:
        USES[name]()
        out[name] = "ok"
    except BaseException as error:
        out[name] = f"{type(error).__name__}: {str(error)[:300]}"
print("\nTRUTH " + json.dumps(out), flush=True)
os._exit(0)  # what the frameworks do at the end is not asked
